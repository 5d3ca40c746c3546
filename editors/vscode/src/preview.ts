/** Draws rewrites over the old text, with decorations alone: nothing else in the editor sees half an edit. */

import * as vscode from 'vscode';
import { draw, type Lines } from './drawing';
import type { Job } from './job';
import type { Rewrites } from './rewrites';

const color = (id: string): vscode.ThemeColor => new vscode.ThemeColor(id);

export class Preview implements vscode.Disposable {
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
  private readonly added = vscode.window.createTextEditorDecorationType({});
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
      ...[this.removed, this.parts, this.inserted, this.added, this.ahead, this.writing],
    ];
  }

  dispose(): void {
    vscode.Disposable.from(...this.subscriptions).dispose();
  }

  /** The drawing of an editor's rewrite, as values. */
  drawing(editor: vscode.TextEditor): ReturnType<typeof draw> {
    return draw(this.rewrites.at(editor.document.uri)?.hunks ?? [], linesOf(editor));
  }

  private redraw(isMeant: (editor: vscode.TextEditor) => boolean): void {
    for (const editor of vscode.window.visibleTextEditors.filter(isMeant)) {
      this.draw(editor, this.rewrites.at(editor.document.uri));
    }
  }

  private draw(editor: vscode.TextEditor, job: Job | undefined): void {
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
    editor.setDecorations(
      this.added,
      cells.map(({ line, gap, text }) => ({
        range: endOf(editor.document, line),
        renderOptions: { after: newText(text, gap) },
      })),
    );
    this.drawWriting(editor, job);
  }

  /** Where the writing is, and what it has not come to yet. */
  private drawWriting(editor: vscode.TextEditor, job: Job | undefined): void {
    const span = job?.state === 'running' ? job.span : undefined;
    const last = editor.document.lineCount - 1;
    const line = Math.min(job?.line ?? span?.first ?? 0, last);
    editor.setDecorations(this.ahead, span && line < span.stop ? [wholeLines(editor.document, line, span.stop)] : []);
    const after = { contentText: `stet: ${job?.message}` };
    editor.setDecorations(
      this.writing,
      span ? [{ range: endOf(editor.document, line), renderOptions: { after } }] : [],
    );
  }
}

function linesOf(editor: vscode.TextEditor): Lines {
  const { document, options } = editor;
  return {
    count: document.lineCount,
    tabSize: typeof options.tabSize === 'number' ? options.tabSize : 4,
    at: (line) => document.lineAt(line).text,
  };
}

/** Blanks would be collapsed; an empty text would not be drawn at all. */
function newText(text: string, gap: number): vscode.ThemableDecorationAttachmentRenderOptions {
  return {
    contentText: (text || ' ').replaceAll(' ', '\u00a0'),
    margin: `0 0 0 ${gap}ch`,
    backgroundColor: color('diffEditor.insertedLineBackground'),
    color: color('editor.foreground'),
  };
}

function wholeLines(document: vscode.TextDocument, first: number, stop: number): vscode.Range {
  return document.validateRange(new vscode.Range(first, 0, stop - 1, Number.MAX_SAFE_INTEGER));
}

function endOf(document: vscode.TextDocument, line: number): vscode.Range {
  const { end } = document.lineAt(line).range;
  return new vscode.Range(end, end);
}
