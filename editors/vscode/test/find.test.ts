import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { after, before, test } from 'node:test';
import { findProgram, type Places, programIn, scriptsOf, WrongSetting } from '../src/find';

let root: string;
before(() => (root = mkdtempSync(join(tmpdir(), 'stet-find-'))));
after(() => rmSync(root, { recursive: true }));

/** A folder with an executable of that name; the executable's path. */
function program(folder: string, name = 'stet'): string {
  const path = programIn(join(root, folder), name);
  mkdirSync(join(root, folder), { recursive: true });
  writeFileSync(path, '');
  chmodSync(path, 0o755);
  return path;
}

function found(places: Partial<Places>): [string | undefined, string[] | undefined] {
  const nowhere = { path: '', interpreter: '', searchPath: '', python: undefined, environment: join(root, 'no venv') };
  const program = findProgram({ ...nowhere, ...places });
  return [program?.command, program?.args];
}

test('each place is asked only when those before it have nothing', () => {
  const path = program('a');
  const interpreter = program('b', 'python');
  const onPath = program('c');
  const beside = program('d');
  const environment = join(root, 'venv');
  const own = program(scriptsOf('venv'));
  const searchPath = [join(root, 'nothing'), join(root, 'c')].join(delimiter);
  const python = programIn(join(root, 'd'), 'python');
  const all = { path, interpreter, searchPath, python, environment };
  assert.deepEqual(found(all), [path, []]);
  assert.deepEqual(found({ ...all, path: '' }), [interpreter, ['-m', 'lsp_server.cli']]);
  assert.deepEqual(found({ ...all, path: '', interpreter: '' }), [onPath, []]);
  assert.deepEqual(found({ python, environment }), [beside, []]);
  assert.deepEqual(found({ environment }), [own, []]);
  assert.deepEqual(found({}), [undefined, undefined]);
});

test('a setting that names no program is an error, not a reason to take another', () => {
  const searchPath = join(program('e'), '..');
  const settings = [{ path: join(root, 'missing') }, { path: 'stet' }, { path: root }, { interpreter: 'python3' }];
  for (const places of settings) {
    assert.throws(() => found({ ...places, searchPath }), WrongSetting);
  }
});

test('a relative folder on the PATH may be a repository: it is passed over', () => {
  assert.deepEqual(found({ searchPath: ['.', 'bin', ''].join(delimiter) }), [undefined, undefined]);
});

test('a file that cannot be run is no program', { skip: process.platform === 'win32' }, () => {
  const path = program('f');
  chmodSync(path, 0o644);
  assert.deepEqual(found({ searchPath: join(root, 'f') }), [undefined, undefined]);
});
