/** The settings of section "stet", and which of them are the server's. */

import * as vscode from 'vscode';

/** As package.json lists it, which gives the type and the default. */
export function setting<T>(name: string): T {
  return vscode.workspace.getConfiguration('stet').get<T>(name) as T;
}

const SERVER_SETTINGS = [
  'model',
  'smallLm',
  'dtype',
  'idleExitMinutes',
  'server.url',
  'server.token',
  'codeActions',
  'projectFiles',
];

/** What the server is told. An empty text is no value: package.json can't say "none" in another way. */
export function serverSettings(): Record<string, unknown> {
  const values = SERVER_SETTINGS.map((name): [string, unknown] => [name, setting(name)]);
  return Object.fromEntries(values.filter(([, value]) => value !== ''));
}
