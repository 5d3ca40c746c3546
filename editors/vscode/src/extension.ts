/** Registration only: which command and which event goes to which module. */

import * as vscode from 'vscode';
import * as actions from './actions';
import { Doctor } from './doctor';
import { install } from './install';
import { Instructions } from './instruction';
import { Lenses } from './lenses';
import { chooseModel } from './models';
import { Preview } from './preview';
import { Proposals } from './proposals';
import * as review from './review';
import { Rewrites } from './rewrites';
import { Server } from './server';
import { Status } from './status';

/** What the tests look at. */
export interface Api {
  rewrites: Rewrites;
  server: Server;
  preview: Preview;
  status: Status;
}

export function activate(context: vscode.ExtensionContext): Api {
  const server = new Server(context);
  const rewrites = new Rewrites(server);
  const preview = new Preview(rewrites);
  const proposals = new Proposals(rewrites);
  const doctor = new Doctor(server);
  const status = new Status(rewrites, server);
  const user = { rewrites, instructions: new Instructions(server, context.globalState) };

  const commands: Record<string, (first?: unknown, second?: unknown) => unknown> = {
    rewriteSelection: (task) => actions.rewriteSelection(user, task),
    rewriteFile: (task) => actions.rewriteFile(user, task),
    rewriteByRecipe: () => actions.rewriteByRecipe(user),
    fixProblems: () => actions.fixProblems(user),
    repeat: () => actions.repeat(user),
    refine: (job) => actions.refine(user, job),
    regenerate: (job) => actions.regenerate(rewrites, job),
    cancel: (job) => review.cancel(rewrites, job),
    accept: (job) => review.accept(rewrites, job),
    reject: (job) => review.reject(rewrites, job),
    acceptHunk: (job, hunk) => review.acceptHunk(rewrites, job, hunk),
    rejectHunk: (job, hunk) => review.rejectHunk(rewrites, job, hunk),
    nextHunk: () => review.goToHunk(rewrites, 1),
    previousHunk: () => review.goToHunk(rewrites, -1),
    nextVersion: (job) => review.goToVersion(rewrites, 1, job),
    previousVersion: (job) => review.goToVersion(rewrites, -1, job),
    showChanges: (job) => review.showChanges(rewrites, proposals, job),
    showContext: (job) => review.showContext(rewrites, job),
    toggleProvenance: () => review.toggleProvenance(rewrites, preview),
    showLog: () => server.log.show(),
    doctor: () => doctor.show(),
    start: () => vscode.commands.executeCommand('workbench.action.openWalkthrough', 'stet.stet#start'),
    install: () => install(server),
    chooseModel: () => chooseModel(server),
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
    doctor,
    lenses,
    status,
    vscode.languages.registerCodeLensProvider(server.selector, lenses),
  );
  void server.startIfFound();
  return { rewrites, server, preview, status };
}
