/** Asks for the instruction, with those of before and the server's recipes to choose from. The model reads the code meanwhile. */

import * as vscode from 'vscode';
import type { LanguageClient } from 'vscode-languageclient/node';
import { FIX, problemsIn } from './problems';
import type { Job } from './job';
import type { Recipe, Target, Task } from './protocol';
import type { Server } from './server';

const KEY = 'instructions';
const MAX_KEPT = 50;
const GROUPS = { project: 'Recipes of this project', user: 'Your recipes', builtin: 'Recipes' };

interface Item extends vscode.QuickPickItem {
  task?: Task;
}

interface Question {
  title: string;
  placeholder: string;
}

export class Instructions {
  constructor(
    private readonly server: Server,
    private readonly memory: vscode.Memento,
  ) {}

  /** What the user wants, or undefined after Escape. */
  ask(target: Target): Promise<Task | undefined> {
    const question = { title: 'Stet: rewrite', placeholder: 'What to do, e.g. “Handle the empty list”' };
    return this.answerTo(question, target, target);
  }

  /** What the user wants beyond what is proposed. */
  askAlso(job: Job, target: Target): Promise<Task | undefined> {
    const question = { title: 'Stet: now also', placeholder: 'What else to do, e.g. “Use a for loop”' };
    return this.answerTo(question, { textDocument: target.textDocument, refines: job.id }, target);
  }

  /** One of the recipes that suit the document. */
  async chooseRecipe(target: Target): Promise<Task | undefined> {
    const client = await this.server.client();
    const items = client && recipesFor(client, target).then((recipes) => itemsOf(recipes, target));
    return items && (await vscode.window.showQuickPick(items, { title: 'Stet: rewrite by recipe' }))?.task;
  }

  /** params: of stet/prepare. */
  private async answerTo(question: Question, params: object, target: Target): Promise<Task | undefined> {
    const client = await this.server.client();
    if (!client) {
      return undefined;
    }
    const warmUp = new vscode.CancellationTokenSource();
    // It never fails for a reason that the rewrite would not tell as well.
    client.sendRequest('stet/prepare', params, warmUp.token).then(undefined, () => undefined);
    const task = await this.pick(question, recipesFor(client, target), target);
    if (!task) {
      warmUp.cancel();
    } else if ('instruction' in task) {
      const others = this.kept().filter((other) => other !== task.instruction);
      await this.memory.update(KEY, [task.instruction, ...others].slice(0, MAX_KEPT));
    }
    return task;
  }

  /** Typing need not wait for the recipes. */
  private pick({ title, placeholder }: Question, coming: Promise<Recipe[]>, target: Target): Promise<Task | undefined> {
    const pick = vscode.window.createQuickPick<Item>();
    pick.title = title;
    pick.placeholder = placeholder;
    pick.ignoreFocusOut = true;
    let recipes: Item[] = [];
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
      let isOpen = true;
      pick.onDidHide(() => {
        isOpen = false;
        resolve(undefined);
        pick.dispose();
      });
      void coming.then((found) => {
        recipes = itemsOf(found, target);
        if (isOpen) {
          show();
        }
      });
      show();
      pick.show();
    });
  }

  private items(typed: string, recipes: readonly Item[]): Item[] {
    const isWanted = ({ label }: Item): boolean => label.toLowerCase().includes(typed.toLowerCase()) && label !== typed;
    const before = this.kept().map((instruction) => ({ label: instruction, task: { instruction } }));
    const offered = recipes.filter((item) => item.task && isWanted(item));
    return [
      ...(typed ? [{ label: typed, description: 'Enter', alwaysShow: true, task: { instruction: typed } }] : []),
      ...group('Before', before.filter(isWanted)),
      ...(typed ? group('Recipes', offered) : recipes),
    ];
  }

  private kept(): string[] {
    return this.memory.get<string[]>(KEY, []);
  }
}

/** None where they can't be had: there is the instruction in words. */
async function recipesFor(client: LanguageClient, { textDocument }: Target): Promise<Recipe[]> {
  try {
    const { uri } = textDocument;
    return (await client.sendRequest<{ recipes: Recipe[] }>('stet/recipes', { textDocument: { uri } })).recipes;
  } catch {
    return [];
  }
}

/** In groups. The one that fixes problems is there where there are any. */
function itemsOf(recipes: readonly Recipe[], target: Target): Item[] {
  const diagnostics = problemsIn(target);
  const suitable = recipes.filter(({ id }) => id !== FIX || diagnostics.length > 0);
  return (['project', 'user', 'builtin'] as const).flatMap((kind) =>
    group(
      GROUPS[kind],
      suitable
        .filter((recipe) => recipe.kind === kind)
        .map(({ id, title }) => ({ label: title, task: { recipe: id, ...(id === FIX ? { diagnostics } : {}) } })),
    ),
  );
}

/** alwaysShow: what is shown was chosen here, by what it contains. */
function group(label: string, items: Item[]): Item[] {
  const separator = { label, kind: vscode.QuickPickItemKind.Separator };
  return items.length > 0 ? [separator, ...items.map((item) => ({ ...item, alwaysShow: true }))] : [];
}
