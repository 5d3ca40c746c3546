/** Draws rewrites over the old text, with decorations alone: nothing else in the editor sees half an edit. */

import * as vscode from 'vscode';
import { draw, type Drawing, type Lines, MAX_PIECES, type Piece, type View } from './drawing';
import type { Job } from './job';
import { documentUri } from './proposals';
import type { Rewrites } from './rewrites';

const color = (id: string): vscode.ThemeColor => new vscode.ThemeColor(id);

const STYLES: Record<Piece['kind'], vscode.ThemableDecorationAttachmentRenderOptions> = {
  plain: { color: color('editor.foreground'), backgroundColor: color('diffEditor.insertedLineBackground') },
  added: { color: color('editor.foreground'), backgroundColor: color('diffEditor.insertedTextBackground') },
  copied: { color: color('disabledForeground'), backgroundColor: color('diffEditor.insertedLineBackground') },
  written: { color: color('editor.foreground'), backgroundColor: color('editor.findMatchHighlightBackground') },
};

export class Preview implements vscode.Disposable {
  /** What stands out in the new lines. */
  view: View = 'differences';

  /** Not to the end of the line: that is where the new text stands. */
  private readonly removed = vscode.window.createTextEditorDecorationType({
    backgroundColor: color('diffEditor.removedLineBackground'),
    overviewRulerColor: color('diffEditorOverview.removedForeground'),
  });
  private readonly parts = vscode.window.createTextEditorDecorationType({
    backgroundColor: color('diffEditor.removedTextBackground'),
  });
  private readonly inserted = vscode.window.createTextEditorDecorationType({
    isWholeLine: true,
    borderColor: color('editorGutter.addedBackground'),
    borderStyle: 'solid',
    borderWidth: '1px 0 0 0',
    overviewRulerColor: color('diffEditorOverview.insertedForeground'),
  });
  /** One for each piece of a line, in the order of the screen: the editor draws what stands at one place in that of the keys. */
  private readonly pieces = Array.from({ length: MAX_PIECES }, () =>
    vscode.window.createTextEditorDecorationType({}),
  ).sort((a, b) => (a.key < b.key ? -1 : 1));
  /** Lines that the model has not come to yet. */
  private readonly ahead = vscode.window.createTextEditorDecorationType({ opacity: '0.6' });
  private readonly writing = vscode.window.createTextEditorDecorationType({
    after: { margin: '0 0 0 3ch', color: color('editorCodeLens.foreground'), fontStyle: 'italic' },
  });
  private readonly subscriptions: vscode.Disposable[];

  constructor(private readonly rewrites: Rewrites) {
    this.subscriptions = [
      rewrites.onDidChange((uri) => this.redraw((editor) => editor.document.uri.toString() === uri.toString())),
      vscode.window.onDidChangeVisibleTextEditors(() => this.redraw(() => true)),
      ...[this.removed, this.parts, this.inserted, ...this.pieces, this.ahead, this.writing],
    ];
  }

  dispose(): void {
    vscode.Disposable.from(...this.subscriptions).dispose();
  }

  /** Let something else stand out. */
  setView(view: View): void {
    this.view = view;
    this.redraw(() => true);
  }

  /** The drawing of an editor's rewrites, as values. */
  drawing(editor: vscode.TextEditor): Drawing {
    const hunks = this.shown(editor).flatMap((job) => job.hunks);
    return draw(hunks, linesOf(editor), this.view);
  }

  private shown(editor: vscode.TextEditor): Job[] {
    return isInDiff(editor) ? [] : this.rewrites.jobs.shown(editor.document.uri);
  }

  private redraw(isMeant: (editor: vscode.TextEditor) => boolean): void {
    for (const editor of vscode.window.visibleTextEditors.filter(isMeant)) {
      this.draw(editor);
      this.drawWriting(editor);
    }
  }

  private draw(editor: vscode.TextEditor): void {
    const { removed, parts, inserted, cells } = this.drawing(editor);
    const whole = (first: number, stop: number): vscode.Range => wholeLines(editor.document, first, stop);
    editor.setDecorations(
      this.removed,
      removed.map(({ first, stop }) => whole(first, stop)),
    );
    editor.setDecorations(
      this.parts,
      parts.map(({ line, start, end }) => new vscode.Range(line, start, line, end)),
    );
    editor.setDecorations(
      this.inserted,
      inserted.map((line) => whole(line, line + 1)),
    );
    this.pieces.forEach((type, index) => {
      const drawn = cells.flatMap(({ line, gap, pieces }) => {
        // A line that is empty is a piece too, or nobody would see that it comes.
        const piece = pieces[index] ?? (index === 0 ? ({ kind: 'plain', text: ' ' } as const) : undefined);
        const after = piece && newText(piece, index === 0 ? gap : 0);
        return after ? [{ range: endOf(editor.document, line), renderOptions: { after } }] : [];
      });
      editor.setDecorations(type, drawn);
    });
  }

  /** Where the writing is, and what it has not come to yet. */
  private drawWriting(editor: vscode.TextEditor): void {
    const { document } = editor;
    const last = document.lineCount - 1;
    const running = this.shown(editor).filter(isWriting);
    const lineOf = (job: Job & Writing): number => Math.min(job.line ?? job.span.first, last);
    editor.setDecorations(
      this.ahead,
      running
        .filter((job) => lineOf(job) < job.span.stop)
        .map((job) => wholeLines(document, lineOf(job), job.span.stop)),
    );
    editor.setDecorations(
      this.writing,
      running.map((job) => ({
        range: endOf(document, lineOf(job)),
        renderOptions: { after: { contentText: `stet: ${job.message}` } },
      })),
    );
  }
}

type Writing = { span: NonNullable<Job['span']> };

/** Beside a proposal in VS Code's own diff nothing is drawn: all of it stands there. An editor in a diff has no column. */
function isInDiff({ viewColumn, document }: vscode.TextEditor): boolean {
  const inputs = vscode.window.tabGroups.all.map(({ activeTab }) => activeTab?.input);
  const isOf = (input: unknown): boolean =>
    input instanceof vscode.TabInputTextDiff &&
    input.original.toString() === document.uri.toString() &&
    documentUri(input.modified).toString() === document.uri.toString();
  return viewColumn === undefined && inputs.some(isOf);
}

function isWriting(job: Job): job is Job & Writing {
  return job.state === 'running' && job.span !== undefined;
}

function linesOf(editor: vscode.TextEditor): Lines {
  const { document, options } = editor;
  return {
    count: document.lineCount,
    tabSize: typeof options.tabSize === 'number' ? options.tabSize : 4,
    at: (line) => document.lineAt(line).text,
  };
}

/** Blanks would be collapsed. */
function newText({ kind, text }: Piece, gap: number): vscode.ThemableDecorationAttachmentRenderOptions {
  return { ...STYLES[kind], contentText: text.replaceAll(' ', '\u00a0'), margin: `0 0 0 ${gap}ch` };
}

function wholeLines(document: vscode.TextDocument, first: number, stop: number): vscode.Range {
  return document.validateRange(new vscode.Range(first, 0, stop - 1, Number.MAX_SAFE_INTEGER));
}

function endOf(document: vscode.TextDocument, line: number): vscode.Range {
  const { end } = document.lineAt(line).range;
  return new vscode.Range(end, end);
}
