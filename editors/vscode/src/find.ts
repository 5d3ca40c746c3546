/** Where the server's program is. Looks at files only: nothing is run, and no editor is known. */

import { accessSync, constants, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, dirname, isAbsolute, join } from 'node:path';

/** A program and the arguments that stand before `lsp`, `--version` and the like. */
export interface Program {
  command: string;
  args: string[];
  /** Where it was found, for a person. */
  source: string;
}

/** A setting is wrong: to go on and take another program would hide that. */
export class WrongSetting extends Error {}

export interface Places {
  /** stet.path */
  path: string;
  /** stet.interpreter */
  interpreter: string;
  /** $PATH */
  searchPath: string;
  /** The interpreter that the Python extension has chosen. */
  python: string | undefined;
  /** The virtual environment that this extension makes. */
  environment: string;
}

/** The first that there is, or undefined. Throws WrongSetting. */
export function findProgram(places: Places): Program | undefined {
  if (places.path) {
    return { command: configured('stet.path', places.path), args: [], source: 'stet.path' };
  }
  if (places.interpreter) {
    const command = configured('stet.interpreter', places.interpreter);
    return { command, args: ['-m', 'lsp_server.cli'], source: 'stet.interpreter' };
  }
  // Outside of a virtual environment Windows has the interpreter beside its folder of scripts.
  const beside = places.python ? dirname(places.python) : undefined;
  const scripts = beside ? [beside, scriptsOf(beside)] : [];
  return (
    // A relative entry of the PATH means a folder of whoever starts the editor: perhaps a repository's.
    inFolders(places.searchPath.split(delimiter).filter(isAbsolute), 'PATH') ??
    inFolders(scripts, 'the environment of the Python extension') ??
    inFolders([scriptsOf(places.environment)], 'the environment made by Stet: Install the Server')
  );
}

/** Where a virtual environment has its programs. */
export function scriptsOf(environment: string): string {
  return join(environment, process.platform === 'win32' ? 'Scripts' : 'bin');
}

/** The program of that name in a folder. */
export function programIn(folder: string, name: string): string {
  return join(folder, process.platform === 'win32' ? `${name}.exe` : name);
}

function inFolders(folders: string[], source: string): Program | undefined {
  const command = folders.map((folder) => programIn(folder, 'stet')).find(isProgram);
  return command === undefined ? undefined : { command, args: [], source };
}

function configured(setting: string, value: string): string {
  const path = value.startsWith('~/') ? join(homedir(), value.slice(2)) : value;
  if (!isAbsolute(path) || !isProgram(path)) {
    throw new WrongSetting(`${setting} must be the absolute path of a program; there is none at ${value}`);
  }
  return path;
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
