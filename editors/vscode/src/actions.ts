/** The commands that ask for a rewrite. */

import * as vscode from 'vscode';
import { editorInFront, proposalInFront, say } from './front';
import type { Instructions } from './instruction';
import type { Job } from './job';
import { FIX, problemsIn } from './problems';
import type { Target, Task } from './protocol';
import type { Rewrites } from './rewrites';

/** What an instruction needs on its way. */
export interface User {
  rewrites: Rewrites;
  instructions: Instructions;
}

/** A keybinding may bring the instruction: `"args": {"instruction": "Add type hints"}`; so may one that names a recipe. */
export async function rewriteSelection({ rewrites, instructions }: User, argument?: unknown): Promise<void> {
  const editor = editorInFront();
  if (editor) {
    const target = targetOf(editor.document, editor.selection);
    await run(rewrites, target, isTask(argument) ? argument : await instructions.ask(target));
  }
}

export async function rewriteFile({ rewrites, instructions }: User, argument?: unknown): Promise<void> {
  const document = editorInFront()?.document;
  if (document) {
    const end = document.lineAt(document.lineCount - 1).range.end;
    const target = targetOf(document, new vscode.Range(new vscode.Position(0, 0), end));
    await run(rewrites, target, isTask(argument) ? argument : await instructions.ask(target));
  }
}

export async function rewriteByRecipe({ rewrites, instructions }: User): Promise<void> {
  const editor = editorInFront();
  if (editor) {
    const target = targetOf(editor.document, editor.selection);
    await run(rewrites, target, await instructions.chooseRecipe(target));
  }
}

/** What any extension has found wrong in the lines that are selected, or in that of the cursor. */
export async function fixProblems({ rewrites }: User): Promise<void> {
  const editor = editorInFront();
  if (editor) {
    const target = targetOf(editor.document, editor.selection);
    const diagnostics = problemsIn(target);
    if (diagnostics.length > 0) {
      await run(rewrites, target, { recipe: FIX, diagnostics });
    } else {
      say('no problem is reported in these lines');
    }
  }
}

/** The last instruction once more, for what is selected now. */
export async function repeat(user: User): Promise<void> {
  const task = user.rewrites.last?.whole;
  if (!task) {
    say('there is no instruction yet to repeat');
  } else if ('recipe' in task && task.recipe === FIX) {
    await fixProblems(user);
  } else {
    await rewriteSelection(user, task);
  }
}

/** Another version beside this one: with some chance in it, for greedy decoding would write the same. */
export async function regenerate(rewrites: Rewrites, id: unknown): Promise<void> {
  const job = proposalInFront(rewrites, 'try again', id);
  if (job) {
    await rewrites.run({ target: targetAgain(job), task: job.order.task, after: { job, as: 'alternativeTo' } });
  }
}

/** A version that goes on from this one: "now also …". */
export async function refine({ rewrites, instructions }: User, id: unknown): Promise<void> {
  const job = proposalInFront(rewrites, 'go on from', id);
  if (job) {
    const target = targetAgain(job);
    const task = isTask(id) ? id : await instructions.askAlso(job, target);
    if (task) {
      await rewrites.run({ target, task, after: { job, as: 'refines' } });
    }
  }
}

async function run(rewrites: Rewrites, target: Target, task: Task | undefined): Promise<void> {
  if (task) {
    await rewrites.run({ target, task });
  }
}

function isTask(argument: unknown): argument is Task {
  return typeof argument === 'object' && argument !== null && ('instruction' in argument || 'recipe' in argument);
}

function targetOf(document: vscode.TextDocument, range: vscode.Range): Target {
  const { start, end } = range;
  return {
    textDocument: { uri: document.uri.toString(), version: document.version },
    range: {
      start: { line: start.line, character: start.character },
      end: { line: end.line, character: end.character },
    },
  };
}

function targetAgain(job: Job): Target {
  return { textDocument: { uri: job.uri.toString() }, range: job.range };
}
