;;; Emacs with Eglot, driven as by a person whose prompts are answered.  -*- lexical-binding: t -*-

;; emacs --batch -l eglot.el CONFIG FILE URL: CONFIG is elisp of docs/editors.md, URL the engine's.
;; Prints what the buffer held after each step, as a JSON list.

(require 'json)
(package-initialize)
(require 'eglot)
(load (pop command-line-args-left) nil t)

(defvar file (pop command-line-args-left))
(defvar texts '())
(setq-default eglot-workspace-configuration `(:stet (:server (:url ,(pop command-line-args-left)))))
(setq eglot-sync-connect 120
      last-nonmenu-event 'key)
(fset 'y-or-n-p (lambda (prompt) (message "asked: %s" prompt) t))
(fset 'completing-read
      (lambda (prompt choices &rest _)
        (or (car (seq-find (lambda (choice) (string-search "Rename y" (car choice))) choices))
            (error "%s: %s" prompt choices))))

(defun note-when (text)
  "Note the buffer's text once TEXT is in it; batch Emacs is never idle, which is when Eglot tells of changes."
  (with-timeout (120 (error "%s didn't come; there is %s" text (buffer-string)))
    (while (not (string-search text (buffer-string)))
      (accept-process-output nil 0.1)))
  (eglot--signal-textDocument/didChange)
  (push (buffer-substring-no-properties (point-min) (point-max)) texts))

(with-current-buffer (find-file-noselect file)
  (buffer-enable-undo)
  (call-interactively #'eglot)
  (eglot-code-actions (point-min) (point-max) nil t)
  (note-when "radius2")
  (undo-boundary)
  (undo)
  (note-when "y = x")
  (when (fboundp 'stet)
    (goto-char (point-min))
    (search-forward "y = ")
    (stet "s/x/side/")
    (note-when "side"))
  (eglot-shutdown (eglot-current-server)))
(princ (json-encode (vconcat (nreverse texts))))
