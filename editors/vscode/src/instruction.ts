/** Asks for the instruction, with those of before and the server's recipes to choose from. The model reads the code meanwhile. */

import * as vscode from 'vscode';
import type { Recipe, Target, Task } from './protocol';
import type { Server } from './server';

const KEY = 'instructions';
const MAX_KEPT = 50;

interface Item extends vscode.QuickPickItem {
  task?: Task;
}

export class Instructions {
  constructor(
    private readonly server: Server,
    private readonly memory: vscode.Memento,
  ) {}

  /** What the user wants, or undefined after Escape. */
  async ask(target: Target): Promise<Task | undefined> {
    const client = await this.server.client();
    if (!client) {
      return undefined;
    }
    const warmUp = new vscode.CancellationTokenSource();
    // It never fails for a reason that the rewrite would not tell as well.
    client.sendRequest('stet/prepare', target, warmUp.token).then(undefined, () => undefined);
    const task = await this.pick(recipesOf(client.initializeResult?.capabilities.experimental));
    if (!task) {
      warmUp.cancel();
    } else if ('instruction' in task) {
      await this.remember(task.instruction);
    }
    return task;
  }

  private pick(recipes: readonly Recipe[]): Promise<Task | undefined> {
    const pick = vscode.window.createQuickPick<Item>();
    pick.title = 'Stet: rewrite';
    pick.placeholder = 'What to do, e.g. “Handle the empty list”';
    pick.ignoreFocusOut = true;
    const show = (): void => {
      const typed = pick.value.trim();
      pick.items = this.items(typed, recipes);
      // Enter on nothing must not run what happens to stand first.
      pick.activeItems = typed ? pick.items.slice(0, 1) : [];
    };
    return new Promise((resolve) => {
      pick.onDidChangeValue(show);
      pick.onDidAccept(() => {
        const typed = pick.value.trim();
        const task = pick.activeItems[0]?.task ?? (typed ? { instruction: typed } : undefined);
        if (task) {
          resolve(task);
          pick.hide();
        }
      });
      pick.onDidHide(() => {
        resolve(undefined);
        pick.dispose();
      });
      show();
      pick.show();
    });
  }

  private items(typed: string, recipes: readonly Recipe[]): Item[] {
    const isWanted = (label: string): boolean => label.toLowerCase().includes(typed.toLowerCase()) && label !== typed;
    const before = this.kept().filter(isWanted);
    const offered = recipes.filter(({ title }) => isWanted(title));
    return [
      ...(typed ? [{ label: typed, description: 'Enter', alwaysShow: true, task: { instruction: typed } }] : []),
      ...group(
        'Before',
        before.map((instruction) => ({ label: instruction, task: { instruction } })),
      ),
      ...group(
        'Recipes',
        offered.map(({ id, title }) => ({ label: title, task: { recipe: id } })),
      ),
    ];
  }

  private kept(): string[] {
    return this.memory.get<string[]>(KEY, []);
  }

  private async remember(instruction: string): Promise<void> {
    const others = this.kept().filter((other) => other !== instruction);
    await this.memory.update(KEY, [instruction, ...others].slice(0, MAX_KEPT));
  }
}

/** alwaysShow: what is shown was chosen here, by what it contains. */
function group(label: string, items: Item[]): Item[] {
  const separator = { label, kind: vscode.QuickPickItemKind.Separator };
  return items.length > 0 ? [separator, ...items.map((item) => ({ ...item, alwaysShow: true }))] : [];
}

/** The server says them at its start. The quick fix is no recipe to choose: it needs a diagnostic. */
function recipesOf(experimental: unknown): Recipe[] {
  const { stet } = (experimental ?? {}) as { stet?: { recipes?: Recipe[] } };
  return (stet?.recipes ?? []).filter(({ id }) => id !== 'fix-diagnostic');
}
