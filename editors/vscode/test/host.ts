/**
 * What the extension promises, in VS Code's own extension host against the real language server. tests/editor/test_vscode.py starts
 * it, and reads the outcome of each test from .outcomes.json in the open folder.
 *
 * The engine is a stand-in (tests/editor/paced_engine.py): it carries out `s/old/new/` on the source, one line a pass.
 */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import * as vscode from 'vscode';
import {
  api,
  CODE,
  DEF,
  editor,
  engine,
  forget,
  insert,
  isIdle,
  job,
  NOW,
  open,
  panel,
  press,
  renamed,
  set,
  show,
  shown,
  startSlowly,
  stet,
  test,
  text,
  until,
} from './harness';

export { run } from './harness';

test('a rewrite is proposed, accepted, and one undo takes it back', async () => {
  await insert(0, '# typed\n');
  editor.selection = new vscode.Selection(4, 0, 10, 0);
  await stet('rewriteSelection', NOW);
  assert.equal(text(), `# typed\n${CODE}`);
  await stet('accept');
  assert.equal(text(), `# typed\n${renamed(CODE)}`);
  assert.equal(job(), undefined);
  await vscode.commands.executeCommand('undo');
  assert.equal(text(), `# typed\n${CODE}`);
  await vscode.commands.executeCommand('redo');
  assert.equal(text(), `# typed\n${renamed(CODE)}`);
});

test('without a selection the function at the cursor is rewritten', async () => {
  editor.selection = new vscode.Selection(5, 4, 5, 4);
  await stet('rewriteSelection', { instruction: 's/x/radius/' });
  await stet('accept');
  const [head, rest] = CODE.split('def rest');
  assert.equal(text(), `${head?.replaceAll(/\bx\b/g, 'radius')}def rest${rest}`);
});

test('a whole file is rewritten', async () => {
  await stet('rewriteFile', { instruction: 's/x/radius/' });
  await stet('accept');
  assert.equal(text(), CODE.replaceAll(/\bx\b/g, 'radius'));
});

test('the stream is drawn beside the text, which stays as it is', async () => {
  const { isDone } = await startSlowly();
  assert.equal(text(), CODE);
  assert(!editor.document.isDirty);
  assert(panel().includes('    radius2 = x * x'));
  await isDone;
  assert.equal(job()?.state, 'proposed');
  assert.equal(text(), CODE);
});

test('cancel leaves the text alone and the engine idle', async () => {
  const before = await engine();
  const { isDone } = await startSlowly();
  await stet('cancel');
  await isDone;
  await isIdle();
  const after = await engine();
  assert.equal(after['n_hung_up'], (before['n_hung_up'] ?? 0) + 1);
  assert.equal(after['n_finished'], before['n_finished']);
  assert.deepEqual([text(), job(), panel(), shown], [CODE, undefined, [], []]);
});

test('typing above while it streams moves the rewrite along', async () => {
  const { isDone } = await startSlowly();
  await insert(0, '# first\n');
  await insert(1, '# second\n');
  assert.deepEqual(api.preview.drawing(editor).removed[0], { first: 7, stop: 8 });
  await isDone;
  await insert(0, '# third\n');
  await stet('accept');
  assert.equal(text(), `# third\n# first\n# second\n${renamed(CODE)}`);
});

test('an edit of a line that would change drops that change, is told, and stays', async () => {
  await stet('rewriteSelection', NOW);
  assert.equal(job()?.hunks.length, 2);
  assert(await editor.edit((edit) => edit.insert(new vscode.Position(5, 13), '  # mine')));
  await until(() => job()?.hunks.length === 1, 'the hunk to be dropped');
  await until(() => shown.length === 1, 'a message');
  await stet('accept');
  const mine = CODE.replace('x * x', 'x * x  # mine');
  assert.equal(text(), mine.replace('y = y * z\n    return y', 'radius2 = radius2 * z\n    return radius2'));
});

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
  await stet('rejectHunk', job()?.hunks[0]?.id);
  await insert(4, '# between\n');
  await stet('accept');
  const between = CODE.replace('    # The', '# between\n    # The');
  assert.equal(text(), between.replace('y = y * z\n    return y', 'radius2 = radius2 * z\n    return radius2'));
});

test('a part of a line is rewritten to the character', async () => {
  editor.selection = new vscode.Selection(7, 8, 7, 13);
  await stet('rewriteSelection', NOW);
  await stet('regenerate');
  await stet('accept');
  assert.equal(text(), CODE.replace('y = y * z', 'y = radius2 * z'));
});

test('reject leaves the text alone', async () => {
  await stet('rewriteSelection', NOW);
  await stet('reject');
  assert.deepEqual([text(), job(), panel(), editor.document.isDirty], [CODE, undefined, [], false]);
});

test('two accepts in a row lose nothing', async () => {
  await stet('rewriteSelection', NOW);
  const ids = job()?.hunks.map(({ id }) => id) ?? [];
  await Promise.all(ids.map((id) => stet('acceptHunk', id)));
  assert.equal(text(), renamed(CODE));
});

for (const [name, template] of [
  ['CRLF', 'a = 1\r\n\r\nb = {}\r\nc = {}\r\n'],
  ['tabs', 'if a:\n\tx = 1\n\tif {}:\n\t\treturn {}\t# {}\n'],
  ['characters beyond the basic plane', 's = "🙂🙂"\n\nt = "👩\u200d🚀e\u0301" + {} + "🙂"\nq = {}\n'],
  ['no final newline', 'a\n\n{}\n{}'],
] as const) {
  test(`bytes outside the change stay: ${name}`, async () => {
    const [before, after] = ['old', 'z'].map((word) => template.replaceAll('{}', word)) as [string, string];
    await open(before, new vscode.Selection(2, 0, 3, after.length));
    await stet('rewriteSelection', { instruction: 's/old/z/' });
    await stet('accept');
    assert(await editor.document.save());
    assert.equal(readFileSync(editor.document.uri.fsPath, 'utf8'), after);
    await vscode.commands.executeCommand('undo');
    assert(await editor.document.save());
    assert.equal(readFileSync(editor.document.uri.fsPath, 'utf8'), before);
  });
}

test('an untitled document is rewritten too', async () => {
  const document = await vscode.workspace.openTextDocument({ language: 'python', content: CODE });
  await show(document);
  await stet('rewriteSelection', NOW);
  await stet('accept');
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
  const all = ['accept', 'regenerate', 'reject', 'showChanges'].map((command) => `3 stet.${command}`);
  assert.deepEqual(commands, [...all, ...changes]);
});

test('the proposal is shown side by side, and accepted from there', async () => {
  await stet('rewriteSelection', NOW);
  await stet('showChanges');
  const tab = vscode.window.tabGroups.activeTabGroup.activeTab?.input;
  assert(tab instanceof vscode.TabInputTextDiff);
  assert.equal(tab.original.toString(), editor.document.uri.toString());
  assert.equal((await vscode.workspace.openTextDocument(tab.modified)).getText(), renamed(CODE));
  await until(() => vscode.window.activeTextEditor?.document.uri.toString() === tab.modified.toString(), 'the diff');
  await stet('accept');
  assert.equal(text(), renamed(CODE));
});

test('a model that changes nothing is told, and asked again if the user wants', async () => {
  const before = await engine();
  press('Try again');
  await stet('rewriteSelection', { instruction: 's/nowhere/found/' });
  await until(() => shown.length === 2, 'two messages');
  assert.deepEqual(shown[0], { text: 'Stet: the model changed nothing', buttons: ['Try again'] });
  assert.equal((await engine())['n_finished'], (before['n_finished'] ?? 0) + 2);
  assert.equal(text(), CODE);
});

test('the last instruction is repeated elsewhere', async () => {
  await stet('rewriteSelection', { instruction: 's/x/radius/' });
  await stet('accept');
  editor.selection = new vscode.Selection(11, 0, 13, 0);
  await stet('repeat');
  await stet('accept');
  assert.equal(text(), CODE.replaceAll(/\bx\b/g, 'radius'));
});

test('another try takes the place of the proposal', async () => {
  await stet('rewriteSelection', NOW);
  const first = job();
  await insert(0, '# above\n');
  await stet('regenerate');
  assert.notEqual(job(), first);
  await stet('accept');
  assert.equal(text(), `# above\n${renamed(CODE)}`);
});

test('a recipe chosen in the code action menu is previewed too', async () => {
  const provide = 'vscode.executeCodeActionProvider';
  const found = await vscode.commands.executeCommand<vscode.CodeAction[]>(
    provide,
    editor.document.uri,
    DEF,
    'refactor.rewrite',
  );
  const action = found.find(({ title }) => title.startsWith('Stet: '));
  assert(action?.command, `no action among ${found.map(({ title }) => title).join(', ')}`);
  await vscode.commands.executeCommand(action.command.command, ...(action.command.arguments ?? []));
  // The stand-in engine knows no recipe and changes nothing: it is asked all the same, and that is told by this side.
  assert.equal(shown[0]?.text, 'Stet: the model changed nothing');
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

test('a server that dies leaves the text as it was, and the next rewrite works', async () => {
  const { isDone } = await startSlowly();
  await stet('restart');
  await isDone;
  assert.deepEqual([text(), job(), panel()], [CODE, undefined, []]);
  await stet('rewriteSelection', NOW);
  await stet('accept');
  assert.equal(text(), renamed(CODE));
});

test('a missing server is told with what to do about it, and looked for again', async () => {
  const path = vscode.workspace.getConfiguration('stet').get('path');
  await set('path', '');
  await stet('rewriteSelection', NOW);
  assert.deepEqual(shown, [{ text: 'Stet: the server is not installed', buttons: ['Install…', 'Set the path…'] }]);
  await set('path', path);
  await stet('rewriteSelection', NOW);
  assert.equal(job()?.state, 'proposed');
});

test('a wrong path is an error that names the setting', async () => {
  const path = vscode.workspace.getConfiguration('stet').get('path');
  await set('path', '/nowhere/stet');
  await stet('rewriteSelection', NOW);
  await set('path', path);
  assert.match(shown[0]?.text ?? '', /stet\.path must be .*\/nowhere\/stet/);
});

test('installing shows what it would run, and runs nothing unless agreed', async () => {
  await stet('install');
  assert.deepEqual(shown, [{ text: 'Install the Stet server?', buttons: ['Install'] }]);
  assert.equal(vscode.tasks.taskExecutions.length, 0);
});

test('the doctor finds nothing amiss', async () => {
  await stet('doctor');
  const report = vscode.window.activeTextEditor?.document.getText() ?? '';
  assert.match(report, /language server: running/);
  assert.match(report, /answered in \d+ ms/);
  assert.match(report, /stet, version /);
});

test('the workspace chooses nothing', async () => {
  const manifest = vscode.extensions.getExtension('stet.stet')?.packageJSON as {
    contributes: { configuration: { properties: Record<string, { scope?: string }> } };
  };
  const open = Object.entries(manifest.contributes.configuration.properties).filter(
    ([, { scope }]) => scope !== 'machine',
  );
  assert.deepEqual(
    open.map(([name]) => name),
    ['stet.autoAccept'],
  );
});
