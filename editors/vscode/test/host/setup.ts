/** The server and the model: found, installed, chosen. */

import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import * as vscode from 'vscode';
import { scriptsOf } from '../../src/find';
import { api, choose, CODE, folders, job, listed, NOW, set, shown, stet, test, text, until } from './harness';

const report = (): string => vscode.window.activeTextEditor?.document.getText() ?? '';

test('a missing server is told with what to do about it, and looked for again', async () => {
  const path = vscode.workspace.getConfiguration('stet').get('path');
  await set('path', '');
  await stet('rewriteSelection', NOW);
  assert.deepEqual(shown, [
    { text: 'Stet: there is no program “stet” on the PATH', buttons: ['Install…', 'Set the path…'] },
  ]);
  await set('path', path);
  await stet('rewriteSelection', NOW);
  assert.equal(job()?.state, 'proposed');
});

test('a wrong path is an error that names the setting', async () => {
  const path = vscode.workspace.getConfiguration('stet').get('path');
  await set('path', '/nowhere/stet');
  await stet('rewriteSelection', NOW);
  assert.match(shown[0]?.text ?? '', /stet\.path must be .*\/nowhere\/stet/);
  await stet('doctor');
  await until(() => /what to do: .*stet\.path/.test(report()), 'the remedy');
  await set('path', path);
});

test('a program that is no server is told in our words alone', async () => {
  const path = vscode.workspace.getConfiguration('stet').get('path');
  await set('path', '/bin/true');
  await stet('rewriteSelection', NOW);
  await set('path', path);
  assert.deepEqual(
    [...new Set(shown.map((each) => each.text))],
    ['Stet: /bin/true (stet.path) did not start as a server'],
  );
  await stet('rewriteSelection', NOW);
  assert.equal(job()?.state, 'proposed');
});

test('a server that starts is said to', async () => {
  const titles: (string | undefined)[] = [];
  const { withProgress } = vscode.window;
  Object.assign(vscode.window, {
    withProgress: (options: vscode.ProgressOptions, task: Parameters<typeof withProgress>[1]) => {
      titles.push(options.title);
      return withProgress(options, task);
    },
  });
  try {
    await stet('restart');
    await stet('rewriteSelection', NOW);
  } finally {
    Object.assign(vscode.window, { withProgress });
  }
  assert.equal(titles.filter((title) => title === 'Stet: starting the server').length, 1);
});

test('installing shows what it would run, and runs nothing unless agreed', async () => {
  await stet('install');
  const [{ text, buttons, detail } = assert.fail('nothing was asked')] = shown;
  assert.deepEqual([text, buttons], ['Install the Stet server?', ['Install']]);
  assert.match(detail ?? '', /python\S* -m pip install --upgrade stet-lsp$/);
  assert.equal(vscode.tasks.taskExecutions.length, 0);
});

test('the doctor finds nothing amiss', async () => {
  await stet('doctor');
  await until(() => report().includes('language server: running'), 'the report');
  assert.match(report(), /answered in \d+ ms/);
  assert.match(report(), /stet, version /);
  assert.equal(vscode.window.activeTextEditor?.document.isUntitled, false, 'nobody is asked to save it');
  for (const part of ['memory', 'model', 'engine', 'database', 'language server']) {
    assert.match(report(), new RegExp(`^(ok|amiss) +${part} `, 'm'));
  }
});

test('the workspace chooses nothing', () => {
  const manifest = vscode.extensions.getExtension('stet.stet')?.packageJSON as {
    contributes: { configuration: { properties: Record<string, { scope?: string }> } };
  };
  const open = Object.entries(manifest.contributes.configuration.properties).filter(
    ([, { scope }]) => scope !== 'machine',
  );
  assert.deepEqual(open, []);
});

test('the server is looked for in the order that the README names', async () => {
  const [folder] = folders();
  assert(folder);
  const program = (place: string, name = 'stet'): string => {
    const path = join(folder.fsPath, '..', place, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, '#!/bin/sh\n');
    chmodSync(path, 0o755);
    return path;
  };
  const found = async (): Promise<string | undefined> => (await api.server.program())?.command;
  const { PATH } = process.env;
  const path = vscode.workspace.getConfiguration('stet').get('path');
  const places = {
    interpreter: program('interpreter', 'python'),
    PATH: program('on-path'),
    own: program(relative(join(folder.fsPath, '..'), scriptsOf(api.server.environment))),
  };
  try {
    assert.equal(await found(), path);
    await set('interpreter', places.interpreter);
    await set('path', '');
    process.env['PATH'] = dirname(places.PATH);
    assert.equal(await found(), places.interpreter);
    await set('interpreter', undefined);
    assert.equal(await found(), places.PATH);
    process.env['PATH'] = '';
    assert.equal(await found(), places.own);
    rmSync(places.own);
    assert.equal(await found(), undefined);
  } finally {
    process.env['PATH'] = PATH;
    await set('interpreter', undefined);
    await set('path', path);
  }
});

test('a model is chosen by what fits, and fetched only after the user has seen what, how large and from where', async () => {
  choose('tiny');
  await stet('chooseModel');
  const labels = listed.map(({ label }) => label.replaceAll(/\$\(.*?\)/g, '').trim());
  assert.deepEqual(labels.slice(0, 4), ['tiny', 'small', 'medium', 'large']);
  assert.match(listed[0]?.description ?? '', /takes [\d.]+ GB, [\d.]+ GB are free; 0\.5 GB to fetch$/);
  const question = shown.find(({ text }) => text === 'Fetch the model “tiny”?');
  assert.match(
    question?.detail ?? '',
    /Qwen2\.5-Coder-0\.5B-Instruct: 491[.\d]* MB from .* to \/[\s\S]*models fetch tiny --yes$/,
  );
  assert.equal(vscode.tasks.taskExecutions.length, 0);
  assert.equal(vscode.workspace.getConfiguration('stet').get('model'), 'auto');
});

test('a folder on this machine is a model too, if there are weights in it', async () => {
  const [folder] = folders();
  assert(folder);
  const model = vscode.Uri.joinPath(folder, '..', 'weights');
  mkdirSync(model.fsPath);
  Object.assign(vscode.window, { showOpenDialog: () => Promise.resolve([model]) });
  const offline = 'A folder or .gguf file on this machine…';
  choose(offline);
  await stet('chooseModel');
  assert.match(shown.at(-1)?.text ?? '', /is no model folder: it has no \*\.safetensors$/);
  for (const name of ['config.json', 'model.safetensors']) {
    writeFileSync(vscode.Uri.joinPath(model, name).fsPath, '{}');
  }
  choose(offline);
  await stet('chooseModel');
  assert.equal(vscode.workspace.getConfiguration('stet').get('model'), model.fsPath);
  await set('model', undefined);
});

test('where no model is fetched, the choice is one button away', async () => {
  const configuration = vscode.workspace.getConfiguration('stet');
  const url = configuration.get('server.url');
  await set('server.url', '');
  await stet('restart');
  await stet('rewriteSelection', NOW);
  await set('server.url', url);
  await stet('restart');
  assert.match(shown[0]?.text ?? '', /not fetched/);
  assert.deepEqual(shown[0]?.buttons, ['Choose a model…']);
  assert.equal(text(), CODE);
});

/** Commands of VS Code's own that share a key with one of ours, which all but one hold in an editor with a proposal only. */
const SHARED = [
  // They hold where ours doesn't: in a diff, in the find widget, in the terminal, in a chat, in the accessible view.
  'editor.action.accessibleDiffViewer.next',
  'editor.action.accessibleDiffViewer.prev',
  'editor.action.replaceAll',
  'search.action.replaceAll',
  'workbench.action.terminal.runRecentCommand',
  'workbench.action.terminal.sendSequence',
  'workbench.action.terminal.chat.insertCommand',
  'workbench.action.terminal.chat.insertFirstCommand',
  'workbench.action.chat.runInTerminal',
  'chatEditor.action.showAccessibleDiffView',
  'inlineChat.moveToNextHunk',
  'inlineChat.moveToPreviousHunk',
  'editor.action.accessibleViewNext',
  'editor.action.accessibleViewPrevious',
  // Ours waits until the inline suggestion is gone.
  'editor.action.inlineSuggest.showNext',
  'editor.action.inlineSuggest.showPrevious',
  // The next marked word has to wait for the proposal.
  'editor.action.wordHighlight.next',
  'editor.action.wordHighlight.prev',
  // In a browser only, where Ctrl+N and Ctrl+Shift+N are the browser's.
  'workbench.action.files.newUntitledFile',
  'workbench.action.newWindow',
];

test('keys are those of no command of VS Code, but for those that are meant', async () => {
  const uri = vscode.Uri.parse('vscode://defaultsettings/keybindings.json');
  const defaults = (await vscode.workspace.openTextDocument(uri)).getText();
  const bindings = JSON.parse(defaults.replaceAll(/^\s*\/\/.*$/gm, '')) as { key: string; command: string }[];
  const ours = bindings.filter(({ command }) => command.startsWith('stet.')).map(({ key }) => key);
  assert(ours.length >= 10 && bindings.length > 500);
  const shared = bindings.filter(({ key, command }) => !command.startsWith('stet.') && ours.includes(key));
  // Escape is everybody's. Ours waits until whatever else could want it is gone.
  const others = shared.filter(({ key, command }) => key !== 'escape' && !SHARED.includes(command));
  assert.deepEqual(
    others.map(({ key, command }) => `${key} ${command}`),
    [],
  );
});
