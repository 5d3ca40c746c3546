/** What the tests in the extension host work with, and their runner. */

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import * as vscode from 'vscode';
import type { Api } from '../../src/extension';
import type { Job } from '../../src/job';

export const CODE = `import math


def area(x):
    # The area of a circle.
    y = x * x
    z = math.pi
    y = y * z
    return y


def rest(x):
    return x


# A stream that is drawn above has these lines yet to go.
${Array.from({ length: 12 }, (_, n) => `number_${n} = ${n}\n`).join('')}`;
export const DEF = new vscode.Selection(3, 0, 9, 0);
export const NOW = { instruction: 's/y/radius2/' };
export const SLOWLY = { instruction: 'slowly s/y/radius2/' };
const WAIT_MS = 60_000;

export const renamed = (text: string): string => text.replaceAll(/\by\b/g, 'radius2');

const tests: [string, () => void | Promise<void>][] = [];
export const test = (name: string, run: () => void | Promise<void>): void => void tests.push([name, run]);
export const stet = (command: string, ...args: unknown[]): Thenable<unknown> =>
  vscode.commands.executeCommand(`stet.${command}`, ...args);

export let api: Api;
export let editor: vscode.TextEditor;
/** What was shown to the user since `forget`: a text and the names of its buttons. */
export let shown: { text: string; buttons: string[]; detail?: string }[] = [];
/** The last list that was shown to choose from. */
export let listed: vscode.QuickPickItem[] = [];
/** Buttons to be pressed, each once. */
let presses: string[] = [];
/** What is to be chosen from lists, one after another. */
let choices: string[] = [];

export async function until<T>(probe: () => T | Promise<T>, what: string): Promise<NonNullable<T>> {
  const end = Date.now() + WAIT_MS;
  for (;;) {
    const value = await probe();
    if (value) {
      return value;
    }
    assert(Date.now() < end, `waited in vain for ${what}; the text is ${editor.document.getText()}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** The counts of the stand-in engine. */
export async function engine(): Promise<Record<string, number>> {
  const url = vscode.workspace.getConfiguration('stet').get<string>('server.url') ?? '';
  return (await (await fetch(url.replace('/v1', '/health'))).json()) as Record<string, number>;
}

export function forget(): void {
  [shown, presses, listed, choices] = [[], [], [], []];
}

export function press(button: string): void {
  presses.push(button);
}

export function choose(label: string): void {
  choices.push(label);
}

/** Let the tests look at a document. */
export async function show(document: vscode.TextDocument, selection = DEF): Promise<void> {
  look(await vscode.window.showTextDocument(document, { preview: false }), selection);
}

/** Let the tests look at an editor that is there. */
export function look(at: vscode.TextEditor, selection = DEF): void {
  editor = at;
  editor.selection = selection;
}

/** Of the workspace. */
export const folders = (): vscode.Uri[] => (vscode.workspace.workspaceFolders ?? []).map(({ uri }) => uri);

let nFiles = 0;
export async function open(text: string, selection = DEF, folder = folders()[0]): Promise<void> {
  assert(folder);
  const uri = vscode.Uri.joinPath(folder, `sample${++nFiles}.py`);
  writeFileSync(uri.fsPath, text);
  await show(await vscode.workspace.openTextDocument(uri), selection);
}

export const text = (): string => editor.document.getText();
export const job = (): Job | undefined => api.rewrites.jobs.near(editor.document.uri, 0);
export const jobs = (): Job[] => api.rewrites.jobs.shown(editor.document.uri);
export const panel = (): string[] =>
  api.preview.drawing(editor).cells.map(({ pieces }) => pieces.map((piece) => piece.text).join(''));

export async function insert(line: number, inserted: string): Promise<void> {
  assert(await editor.edit((edit) => edit.insert(new vscode.Position(line, 0), inserted)));
}

/** Start a rewrite that takes some seconds, and wait until the first of it is drawn. */
export async function startSlowly(): Promise<{ isDone: Promise<unknown> }> {
  const isDone = Promise.resolve(stet('rewriteFile', SLOWLY));
  await until(() => panel().length > 0, 'the preview');
  assert.equal(job()?.state, 'running');
  return { isDone };
}

export async function isIdle(): Promise<void> {
  await until(async () => (await engine())['n_active'] === 0, 'the engine to be idle');
}

export async function set(name: string, value: unknown): Promise<void> {
  await vscode.workspace.getConfiguration('stet').update(name, value, vscode.ConfigurationTarget.Global);
}

/** Messages wait for a click that nobody makes here: note them, and press what the test says. */
function listen(): void {
  const show = (message: string, ...rest: unknown[]): Promise<string | undefined> => {
    const buttons = rest.filter((each) => typeof each === 'string');
    const detail = rest.map((each) => (each as vscode.MessageOptions).detail).find(Boolean);
    shown.push({ text: message, buttons, ...(detail ? { detail } : {}) });
    return Promise.resolve(
      buttons.find((button) => presses.splice(presses.indexOf(button), presses.includes(button) ? 1 : 0)[0]),
    );
  };
  Object.assign(vscode.window, { showInformationMessage: show, showWarningMessage: show, showErrorMessage: show });
  /** A list waits for a choice too: note it, and choose what the test says. */
  const showList = async (coming: unknown): Promise<vscode.QuickPickItem | undefined> => {
    listed = (await (coming as Promise<vscode.QuickPickItem[]>)).filter(({ kind }) => !kind);
    const choice = choices.shift();
    return listed.find(({ label }) => label === choice);
  };
  Object.assign(vscode.window, { showQuickPick: showList });
}

/** What hangs must not keep the other tests from being run. */
function failLater(): Promise<never> {
  return new Promise((_, reject) =>
    setTimeout(() => reject(new Error('it did not come to an end')), 2 * WAIT_MS).unref(),
  );
}

export async function run(): Promise<void> {
  listen();
  const extension = vscode.extensions.getExtension<Api>('stet.stet');
  assert(extension);
  api = await extension.activate();
  const outcomes: Record<string, string | null> = {};
  for (const [name, body] of tests) {
    try {
      await open(CODE);
      forget();
      await Promise.race([body(), failLater()]);
      outcomes[name] = null;
    } catch (error) {
      outcomes[name] = `${error instanceof Error ? error.stack : String(error)}\nshown: ${JSON.stringify(shown)}`;
    }
    api.rewrites.jobs.in().forEach((job) => api.rewrites.drop(job));
    api.preview.setView('differences');
    await set('autoAccept', undefined);
    await vscode.commands.executeCommand('workbench.action.revertAndCloseActiveEditor');
  }
  const [folder] = folders();
  assert(folder);
  writeFileSync(vscode.Uri.joinPath(folder, '.outcomes.json').fsPath, JSON.stringify(outcomes));
}
