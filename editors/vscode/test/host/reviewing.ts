/** Looking into a proposal, and accepting or rejecting it by parts. */

import assert from 'node:assert/strict';
import * as vscode from 'vscode';
import {
  api,
  CODE,
  editor,
  forget,
  insert,
  job,
  NOW,
  open,
  panel,
  renamed,
  set,
  shown,
  stet,
  test,
  text,
  until,
} from './harness';

test('changes are accepted and rejected one by one', async () => {
  await stet('rewriteSelection', NOW);
  editor.selection = new vscode.Selection(0, 0, 0, 0);
  await stet('nextHunk');
  assert.equal(editor.selection.active.line, 5);
  await stet('nextHunk');
  assert.equal(editor.selection.active.line, 7);
  await stet('previousHunk');
  await stet('acceptHunk');
  const first = CODE.replace('y = x', 'radius2 = x');
  assert.equal(text(), first);
  assert.equal(editor.selection.active.line, 7);
  await stet('rejectHunk');
  assert.deepEqual([text(), job(), panel()], [first, undefined, []]);
  await vscode.commands.executeCommand('undo');
  assert.equal(text(), CODE);
});

test('a rejected change is not in what is accepted later', async () => {
  await stet('rewriteSelection', NOW);
  await stet('rejectHunk', job()?.id, job()?.hunks[0]?.id);
  await insert(4, '# between\n');
  await stet('accept');
  const between = CODE.replace('    # The', '# between\n    # The');
  assert.equal(text(), between.replace('y = y * z\n    return y', 'radius2 = radius2 * z\n    return radius2'));
});

test('reject leaves the text alone', async () => {
  await stet('rewriteSelection', NOW);
  await stet('reject');
  assert.deepEqual([text(), job(), panel(), editor.document.isDirty], [CODE, undefined, [], false]);
});

test('two accepts in a row lose nothing', async () => {
  await stet('rewriteSelection', NOW);
  const ids = job()?.hunks.map(({ id }) => id) ?? [];
  await Promise.all(ids.map((id) => stet('acceptHunk', job()?.id, id)));
  assert.equal(text(), renamed(CODE));
});

test('code lenses name what can be done', async () => {
  await stet('rewriteSelection', NOW);
  const uri = editor.document.uri;
  const lenses = await until(async () => {
    const found = await vscode.commands.executeCommand<vscode.CodeLens[]>('vscode.executeCodeLensProvider', uri);
    return found.length > 0 ? found : undefined;
  }, 'lenses');
  const commands = lenses.map((lens) => `${lens.range.start.line} ${lens.command?.command}`).sort();
  const changes = [5, 7].flatMap((line) => [`${line} stet.acceptHunk`, `${line} stet.rejectHunk`]);
  const all = ['accept', 'refine', 'regenerate', 'reject', 'showChanges'].map((command) => `3 stet.${command}`);
  assert.deepEqual(commands, [...all, ...changes]);
});

test('one change on the first line has no lenses of its own', async () => {
  await open('y = 1\nx = 2\n', new vscode.Selection(0, 0, 2, 0));
  await stet('rewriteSelection', NOW);
  const lenses = await vscode.commands.executeCommand<vscode.CodeLens[]>(
    'vscode.executeCodeLensProvider',
    editor.document.uri,
  );
  const commands = lenses.map(({ command }) => command?.command);
  assert(commands.includes('stet.accept') && !commands.includes('stet.acceptHunk'), commands.join());
});

test('the proposal is shown side by side, and accepted from there', async () => {
  await stet('rewriteSelection', NOW);
  await stet('showChanges');
  const tab = vscode.window.tabGroups.activeTabGroup.activeTab?.input;
  assert(tab instanceof vscode.TabInputTextDiff);
  assert.equal(tab.original.toString(), editor.document.uri.toString());
  assert.equal((await vscode.workspace.openTextDocument(tab.modified)).getText(), renamed(CODE));
  await until(() => vscode.window.activeTextEditor?.document.uri.toString() === tab.modified.toString(), 'the diff');
  const original = vscode.window.visibleTextEditors.find(({ document }) => document === editor.document);
  assert(original);
  assert.deepEqual(api.preview.drawing(original).cells, [], 'it stands beside the proposal already');
  await stet('accept');
  assert.equal(text(), renamed(CODE));
});

test('commands without a rewrite say so', async () => {
  for (const command of ['accept', 'reject', 'cancel', 'nextHunk', 'showChanges', 'regenerate']) {
    forget();
    await stet(command);
    assert.match(shown[0]?.text ?? '', /^Stet: there is no rewrite to /, command);
  }
});

test('with autoAccept it is applied when it is done', async () => {
  await set('autoAccept', true);
  await stet('rewriteSelection', NOW);
  assert.equal(text(), renamed(CODE));
});
