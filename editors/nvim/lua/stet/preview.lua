--- Draws a rewrite beside the buffer's text: extmarks and virtual lines only. Knows no requests.
---
--- Rows come from the server, for a version that may be older than the buffer. One mark on the first line of the range
--- (the anchor) says how far it has moved since. What was typed within the range since then is as little as the user
--- types until the server answers, and the server answers each edit there: the next view puts it right.
local M = {}

local marks = vim.api.nvim_create_namespace('stet')
local anchors = vim.api.nvim_create_namespace('stet.anchor')

for group, link in pairs({ StetAdd = 'DiffAdd', StetDelete = 'DiffDelete', StetWord = 'DiffText', StetStatus = 'Comment' }) do
  vim.api.nvim_set_hl(0, group, { link = link, default = true })
end

---@class stet.Hunk
---@field range lsp.Range whole lines
---@field newText string
---@field removed lsp.Range[] what differs within old lines
---@field added { line: integer, start: integer, end: integer }[] what differs within new ones

---@class stet.View what to draw: a stet/progress notification, or the answer to stet/rewrite with a message
---@field version integer
---@field range lsp.Range
---@field hunks stet.Hunk[] final ones
---@field line? integer where the writing is: what comes before is final
---@field text? string all that has been written so far
---@field finalLines? integer so many lines of it are final
---@field message string

--- How many lines the range has moved since the version that its rows belong to; nil while that can't be known.
---@param buf integer
---@param view stet.View
---@return integer?
local function shift(buf, view)
  local row = view.range.start.line
  local anchor = vim.api.nvim_buf_get_extmarks(buf, anchors, 0, -1, {})[1]
  if anchor then
    return anchor[2] - row
  end
  if vim.lsp.util.buf_versions[buf] == view.version then
    vim.api.nvim_buf_set_extmark(buf, anchors, row, 0, { strict = false })
    return 0
  end
end

---@param text string
---@return string[]
local function split(text)
  return text == '' and {} or vim.split((text:gsub('\r', ''):gsub('\n$', '')), '\n')
end

--- The lines as virtual ones. They show a tab as it is, so it is spelt out in spaces.
---@param buf integer
---@param lines string[]
---@param words table<integer, [integer, integer][]>
---@return [string, string][][]
local function virtual_lines(buf, lines, words)
  local tab = vim.bo[buf].tabstop
  local shown = {}
  for n, line in ipairs(lines) do
    local chunks, at, width = {}, 0, 0
    local function add(stop, group)
      local text = line:sub(at + 1, stop)
      local shown_text = text:gsub('[^\t]*\t', function(piece)
        local before = piece:sub(1, -2)
        local spaces = tab - (width + vim.fn.strdisplaywidth(before)) % tab
        width = width + vim.fn.strdisplaywidth(before) + spaces
        return before .. (' '):rep(spaces)
      end)
      width = width + vim.fn.strdisplaywidth(text:match('[^\t]*$'))
      at = stop
      table.insert(chunks, { shown_text, group })
    end
    for _, word in ipairs(words[n] or {}) do
      add(word[1], 'StetAdd')
      add(word[2], 'StetWord')
    end
    add(#line, 'StetAdd')
    shown[n] = chunks
  end
  return shown
end

--- Line 1 has no line above it to scroll to: without this, virtual lines there would stay hidden.
---@param buf integer
---@param n_lines integer
local function show_above_first_line(buf, n_lines)
  for _, window in ipairs(vim.fn.win_findbuf(buf)) do
    vim.api.nvim_win_call(window, function()
      if vim.fn.winsaveview().topline == 1 then
        vim.fn.winrestview({ topfill = n_lines })
      end
    end)
  end
end

---@param range lsp.Range whole lines
---@return integer first
---@return integer stop the row after the last
local function rows(range)
  return range.start.line, range['end'].line + (range['end'].character > 0 and 1 or 0)
end

--- Draw a change: rows first up to stop become lines.
---@param buf integer
---@param first integer
---@param stop integer
---@param lines string[]
---@param words? table<integer, [integer, integer][]> by line, from 1: bytes of it that stand out
local function draw_change(buf, first, stop, lines, words)
  if stop > first then
    local deleted = { end_row = stop, hl_group = 'StetDelete', hl_eol = true, strict = false }
    vim.api.nvim_buf_set_extmark(buf, marks, first, 0, deleted)
  end
  if #lines > 0 then
    local added = { virt_lines = virtual_lines(buf, lines, words or {}), virt_lines_above = stop == 0, strict = false }
    vim.api.nvim_buf_set_extmark(buf, marks, math.max(stop - 1, 0), 0, added)
  end
  if #lines > 0 and stop == 0 then
    show_above_first_line(buf, #lines)
  end
end

--- What has been written since the last line that is final.
---@param view stet.View
---@return string[]
local function pending_lines(view)
  return vim.list_slice(split(view.text), view.finalLines + 1)
end

--- Draw what is not final yet, as it looks now beside the old lines ahead, of which the model has not reached the last.
---@param buf integer
---@param view stet.View
---@param by integer
---@return integer row where the writing is
local function draw_pending(buf, view, by)
  local row = view.line + by
  local pending = pending_lines(view)
  if #pending == 0 then
    return row
  end
  local _, stop = rows(view.range)
  local old = vim.api.nvim_buf_get_lines(buf, row, stop + by, false)
  local function text(lines)
    return table.concat(lines, '\n') .. '\n'
  end
  for _, change in ipairs(vim.diff(text(old), text(pending), { result_type = 'indices' }) --[[@as integer[][] ]]) do
    local at, n_old, new_at, n_new = unpack(change)
    -- An insertion is said to be at the line before it.
    local first = row + at - (n_old > 0 and 1 or 0)
    local is_ahead = first + n_old >= row + #old
    draw_change(buf, first, is_ahead and first or first + n_old, vim.list_slice(pending, new_at, new_at + n_new - 1))
    if is_ahead then
      return first
    end
  end
  return row + #old
end

--- Draw a hunk, and in its lines the words that differ.
---@param buf integer
---@param hunk stet.Hunk
---@param by integer
---@param encoding string
local function draw_hunk(buf, hunk, by, encoding)
  local first, stop = rows(hunk.range)
  local lines, words = split(hunk.newText), {}
  for _, part in ipairs(hunk.added) do
    local line = lines[part.line + 1]
    local word = { vim.str_byteindex(line, encoding, part.start, false), vim.str_byteindex(line, encoding, part['end'], false) }
    words[part.line + 1] = vim.list_extend(words[part.line + 1] or {}, { word })
  end
  draw_change(buf, first + by, stop + by, lines, words)
  for _, range in ipairs(hunk.removed) do
    local row = range.start.line + by
    local line = vim.api.nvim_buf_get_lines(buf, row, row + 1, false)[1] or ''
    vim.api.nvim_buf_set_extmark(buf, marks, row, vim.str_byteindex(line, encoding, range.start.character, false), {
      end_row = row,
      end_col = vim.str_byteindex(line, encoding, range['end'].character, false),
      hl_group = 'StetWord',
      priority = vim.hl.priorities.user + 1,
      strict = false,
    })
  end
end

--- Replace what is drawn in buf by view.
---@param buf integer
---@param view stet.View
---@param encoding string of its columns
function M.draw(buf, view, encoding)
  local by = shift(buf, view)
  if not by then
    return
  end
  vim.api.nvim_buf_clear_namespace(buf, marks, 0, -1)
  for _, hunk in ipairs(view.hunks) do
    draw_hunk(buf, hunk, by, encoding)
  end
  local first, stop = rows(view.range)
  local writing = view.line and draw_pending(buf, view, by) or first + by
  vim.api.nvim_buf_set_extmark(buf, marks, math.min(writing, stop - 1 + by), 0, {
    virt_text = { { 'stet: ' .. view.message, 'StetStatus' } },
    strict = false,
  })
end

---@param buf integer
function M.clear(buf)
  if vim.api.nvim_buf_is_valid(buf) then
    vim.api.nvim_buf_clear_namespace(buf, marks, 0, -1)
    vim.api.nvim_buf_clear_namespace(buf, anchors, 0, -1)
  end
end

return M
