/** What the tests in the extension host work with, and their runner. */

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import * as vscode from 'vscode';
import type { Api } from '../src/extension';
import type { Job } from '../src/job';

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
const WAIT_MS = 20_000;

export const renamed = (text: string): string => text.replaceAll(/\by\b/g, 'radius2');

const tests: [string, () => Promise<void>][] = [];
export const test = (name: string, run: () => Promise<void>): void => void tests.push([name, run]);
export const stet = (command: string, ...args: unknown[]): Thenable<unknown> =>
  vscode.commands.executeCommand(`stet.${command}`, ...args);

export let api: Api;
export let editor: vscode.TextEditor;
/** What was shown to the user since `forget`: a text and the names of its buttons. */
export let shown: { text: string; buttons: string[] }[] = [];
/** Buttons to be pressed, each once. */
let presses: string[] = [];

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
  [shown, presses] = [[], []];
}

export function press(button: string): void {
  presses.push(button);
}

/** Let the tests look at a document. */
export async function show(document: vscode.TextDocument, selection = DEF): Promise<void> {
  editor = await vscode.window.showTextDocument(document, { preview: false });
  editor.selection = selection;
}

let nFiles = 0;
export async function open(text: string, selection = DEF): Promise<void> {
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri;
  assert(folder);
  const uri = vscode.Uri.joinPath(folder, `sample${++nFiles}.py`);
  writeFileSync(uri.fsPath, text);
  await show(await vscode.workspace.openTextDocument(uri), selection);
}

export const text = (): string => editor.document.getText();
export const job = (): Job | undefined => api.rewrites.at(editor.document.uri);
export const panel = (): string[] => api.preview.drawing(editor).cells.map((cell) => cell.text);

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
    shown.push({ text: message, buttons });
    return Promise.resolve(
      buttons.find((button) => presses.splice(presses.indexOf(button), presses.includes(button) ? 1 : 0)[0]),
    );
  };
  Object.assign(vscode.window, { showInformationMessage: show, showWarningMessage: show, showErrorMessage: show });
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
      await body();
      outcomes[name] = null;
    } catch (error) {
      outcomes[name] = `${error instanceof Error ? error.stack : String(error)}\nshown: ${JSON.stringify(shown)}`;
    }
    api.rewrites.drop(editor.document.uri);
    await set('autoAccept', undefined);
    await vscode.commands.executeCommand('workbench.action.revertAndCloseActiveEditor');
  }
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri;
  assert(folder);
  writeFileSync(vscode.Uri.joinPath(folder, '.outcomes.json').fsPath, JSON.stringify(outcomes));
}
