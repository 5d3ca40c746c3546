/** Several rewrites in one document, several folders in one workspace; what a proposal says of itself. */

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import * as vscode from 'vscode';
import {
  api,
  choose,
  CODE,
  DEF,
  editor,
  folders,
  insert,
  isIdle,
  job,
  jobs,
  listed,
  NOW,
  open,
  panel,
  press,
  renamed,
  set,
  shown,
  SLOWLY,
  stet,
  test,
  text,
  until,
} from './harness';

const REST = new vscode.Selection(11, 0, 13, 0);
const RADIUS = { instruction: 's/x/radius/' };
const restRenamed = (code: string): string =>
  code.replace('rest(x):\n    return x', 'rest(radius):\n    return radius');

/** A proposal for each of the two functions. */
async function propose(): Promise<void> {
  await stet('rewriteSelection', NOW);
  editor.selection = REST;
  await stet('rewriteSelection', RADIUS);
  assert.deepEqual(
    jobs().map(({ state, span }) => [state, span?.first]),
    [
      ['proposed', 3],
      ['proposed', 11],
    ],
  );
}

async function lenses(): Promise<vscode.CodeLens[]> {
  const uri = editor.document.uri;
  return vscode.commands.executeCommand<vscode.CodeLens[]>('vscode.executeCodeLensProvider', uri);
}

test('two rewrites of a document stand side by side, and a command means the one at the cursor', async () => {
  await propose();
  assert(panel().includes('    radius2 = x * x') && panel().includes('    return radius'));
  await stet('accept');
  assert.equal(text(), restRenamed(CODE));
  assert.equal(jobs().length, 1);
  await stet('accept');
  assert.equal(text(), restRenamed(renamed(CODE)));
});

test('a lens means the rewrite that it stands above', async () => {
  await propose();
  const found = await until(async () => {
    const accept = (await lenses()).filter(({ command }) => command?.command === 'stet.accept');
    return accept.length === 2 ? accept : undefined;
  }, 'two lenses');
  const command = found.find(({ range }) => range.start.line === 3)?.command;
  await vscode.commands.executeCommand(command?.command ?? '', ...((command?.arguments ?? []) as unknown[]));
  assert.equal(text(), renamed(CODE));
});

test('the changes of all rewrites are gone through in the order of the document', async () => {
  await propose();
  editor.selection = new vscode.Selection(0, 0, 0, 0);
  const lines: number[] = [];
  for (let n = 0; n < 4; n++) {
    await stet('nextHunk');
    lines.push(editor.selection.active.line);
  }
  assert.deepEqual(lines, [5, 7, 11, 5]);
});

test('one is written while the other stands, and cancel stops only what is written', async () => {
  await stet('rewriteSelection', RADIUS);
  const isDone = Promise.resolve(stet('rewriteSelection', RADIUS));
  await isDone;
  editor.selection = new vscode.Selection(14, 0, 27, 0);
  const writing = Promise.resolve(stet('rewriteSelection', { instruction: 'endlessly s/number_0/first/' }));
  await until(() => panel().includes('first = 0'), 'the second to be written');
  await insert(0, '# above both\n');
  editor.selection = new vscode.Selection(0, 0, 0, 0);
  await stet('cancel');
  await writing;
  await isIdle();
  assert.deepEqual(
    jobs().map(({ state, span }) => [state, span?.first]),
    [['proposed', 4]],
  );
  await stet('accept');
  assert(text().startsWith('# above both\nimport math\n\n\ndef area(radius):'));
});

test('a newer rewrite of the same lines takes the place of the older, without a warning', async () => {
  await stet('rewriteSelection', NOW);
  await stet('rewriteSelection', RADIUS);
  assert.equal(jobs().length, 1);
  assert.deepEqual(shown, []);
  await stet('accept');
  assert(text().includes('y = radius * radius') && !text().includes('radius2'));
});

test('the status bar has the state, the figures, and how many there are', async () => {
  const done = Promise.resolve(stet('rewriteFile', SLOWLY));
  await until(
    () => /^\$\(sync~spin\) Stet: \d+ tokens, \d+ tokens\/s, 75% copied, \d+ s left$/.test(api.status.text),
    'the figures',
  );
  await stet('cancel');
  await done;
  await until(() => api.status.text === '$(edit) Stet', 'the status of nothing');
  await propose();
  assert.match(api.status.text, /^\$\(edit\) Stet: 1 to review, \d+ tokens, \d+ tokens\/s, 75% copied \(\+1\)$/);
});

test('the words that differ stand out in the new lines', async () => {
  await stet('rewriteSelection', NOW);
  const [cell] = api.preview.drawing(editor).cells;
  assert.deepEqual(cell?.pieces, [
    { kind: 'plain', text: '    ' },
    { kind: 'added', text: 'radius2' },
    { kind: 'plain', text: ' = x * x' },
  ]);
});

test('what the model wrote itself stands out on demand, and what it copied does not', async () => {
  await stet('rewriteSelection', NOW);
  await stet('toggleProvenance');
  const kinds = (): string[] =>
    api.preview.drawing(editor).cells[0]?.pieces.map(({ kind, text }) => `${kind}:${text}`) ?? [];
  assert.deepEqual(kinds(), ['copied:    ', 'written:radius2', 'copied: = x * x']);
  await stet('toggleProvenance');
  assert.deepEqual(kinds(), ['plain:    ', 'added:radius2', 'plain: = x * x']);
  assert.deepEqual(shown, []);
});

test('a warning stands above the code, and is confirmed before anything is accepted', async () => {
  await set('autoAccept', true);
  await stet('rewriteFile', { instruction: 'briefly' });
  const warning = job()?.warnings[0]?.message ?? '';
  assert.match(warning, /lines/);
  assert.deepEqual(shown, [{ text: `Stet: ${warning}`, buttons: [] }]);
  await until(
    async () => (await lenses()).some(({ command }) => command?.title === `$(warning) ${warning}`),
    'the lens',
  );
  await stet('accept');
  await stet('acceptHunk');
  const asked = { text: 'Accept this rewrite?', buttons: ['Accept'], detail: warning };
  assert.deepEqual([text(), shown.slice(1)], [CODE, [asked, asked]]);
  press('Accept');
  await stet('accept');
  assert.equal(text(), CODE.split('\n').slice(0, 9).join('\n') + '\n');
});

test('each folder of the workspace has its own project files, and what of them is in the prompt is shown', async () => {
  const [, second] = folders();
  assert(second);
  const toml = vscode.Uri.joinPath(second, '.stet.toml');
  writeFileSync(toml.fsPath, 'instructions = "Only here."\n');
  await stet('rewriteSelection', NOW);
  assert.deepEqual(job()?.context, []);
  await open(CODE, DEF, second);
  await stet('rewriteSelection', NOW);
  assert.deepEqual(job()?.context, [{ path: '.stet.toml', kind: 'instructions', characters: 10, cut: false }]);
  await until(
    async () => (await lenses()).some(({ command }) => command?.title === '$(book) with .stet.toml'),
    'the lens',
  );
  choose('.stet.toml');
  await stet('showContext');
  assert.equal(listed[0]?.description, 'instructions, 10 characters');
  assert.equal(vscode.window.activeTextEditor?.document.uri.toString(), toml.toString());
  await vscode.commands.executeCommand('workbench.action.closeActiveEditor');
});
