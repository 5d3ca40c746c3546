/** Registration only: which command and which event goes to which module. */

import * as vscode from 'vscode';
import * as actions from './actions';
import { doctor } from './doctor';
import { fetchModel, install } from './install';
import { Instructions } from './instruction';
import { Lenses } from './lenses';
import { Preview } from './preview';
import { Proposals } from './proposals';
import { Rewrites } from './rewrites';
import { Server } from './server';
import { Status } from './status';

/** What the tests look at. */
export interface Api {
  rewrites: Rewrites;
  server: Server;
  preview: Preview;
}

export function activate(context: vscode.ExtensionContext): Api {
  const server = new Server(context);
  const rewrites = new Rewrites(server);
  const preview = new Preview(rewrites);
  const proposals = new Proposals(rewrites);
  const user = { rewrites, server, instructions: new Instructions(server, context.globalState) };

  const commands: Record<string, (argument?: unknown) => unknown> = {
    rewriteSelection: (argument) => actions.rewriteSelection(user, argument),
    rewriteFile: (argument) => actions.rewriteFile(user, argument),
    repeat: () => actions.repeat(user),
    regenerate: () => actions.regenerate(rewrites),
    cancel: () => actions.cancel(rewrites),
    accept: () => actions.accept(rewrites),
    reject: () => actions.reject(rewrites),
    acceptHunk: (id) => actions.acceptHunk(rewrites, id),
    rejectHunk: (id) => actions.rejectHunk(rewrites, id),
    nextHunk: () => actions.goToHunk(rewrites, 1),
    previousHunk: () => actions.goToHunk(rewrites, -1),
    showChanges: () => actions.showChanges(rewrites, proposals),
    showLog: () => server.log.show(),
    doctor: () => doctor(server),
    install: () => install(server),
    fetchModel: () => fetchModel(server),
    restart: () => server.restart(),
  };
  for (const [name, run] of Object.entries(commands)) {
    context.subscriptions.push(vscode.commands.registerCommand(`stet.${name}`, run));
  }
  const lenses = new Lenses(rewrites);
  context.subscriptions.push(
    server,
    rewrites,
    preview,
    proposals,
    lenses,
    new Status(rewrites, server),
    vscode.languages.registerCodeLensProvider(server.selector, lenses),
  );
  void server.startIfFound();
  return { rewrites, server, preview };
}
