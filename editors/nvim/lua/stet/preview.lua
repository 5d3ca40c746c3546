--- Draws a rewrite beside the buffer's text: extmarks and virtual lines only. Knows no requests.
---
--- Rows come from the server, for a version that may be older than the buffer. Only edits outside the rewritten range
--- keep a rewrite alive, so within the range everything stays where it is, and one mark on its first line (the anchor)
--- says how far all of it has moved.
local M = {}

local marks = vim.api.nvim_create_namespace('stet')
local anchors = vim.api.nvim_create_namespace('stet.anchor')

for group, link in pairs({ StetAdd = 'DiffAdd', StetDelete = 'DiffDelete', StetStatus = 'Comment' }) do
  vim.api.nvim_set_hl(0, group, { link = link, default = true })
end

---@class stet.Hunk
---@field range lsp.Range whole lines
---@field newText string

---@class stet.View what to draw: a stet/progress notification, or the answer to stet/rewrite with a message
---@field version integer
---@field range lsp.Range
---@field hunks stet.Hunk[]
---@field line? integer
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

--- The lines of text as virtual lines. They show a tab as it is, so it is spelt out in spaces.
---@param buf integer
---@param text string
---@return [string, string][][]
local function virtual_lines(buf, text)
  local tab = vim.bo[buf].tabstop
  return vim
    .iter(vim.split((text:gsub('\r', ''):gsub('\n$', '')), '\n'))
    :map(function(line)
      local width = 0
      local shown = line:gsub('[^\t]*\t', function(piece)
        local before = piece:sub(1, -2)
        local spaces = tab - (width + vim.fn.strdisplaywidth(before)) % tab
        width = width + vim.fn.strdisplaywidth(before) + spaces
        return before .. (' '):rep(spaces)
      end)
      return { { shown, 'StetAdd' } }
    end)
    :totable()
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

---@param buf integer
---@param hunk stet.Hunk
---@param by integer
local function draw_hunk(buf, hunk, by)
  local first, stop = hunk.range.start.line + by, hunk.range['end'].line + by
  if hunk.range['end'].character > 0 then
    stop = stop + 1
  end
  if stop > first then
    vim.api.nvim_buf_set_extmark(buf, marks, first, 0, {
      end_row = stop,
      hl_group = 'StetDelete',
      hl_eol = true,
      strict = false,
    })
  end
  if hunk.newText == '' then
    return
  end
  local lines = virtual_lines(buf, hunk.newText)
  vim.api.nvim_buf_set_extmark(buf, marks, math.max(stop - 1, 0), 0, {
    virt_lines = lines,
    virt_lines_above = stop == 0,
    strict = false,
  })
  if stop == 0 then
    show_above_first_line(buf, #lines)
  end
end

--- Replace what is drawn in buf by view.
---@param buf integer
---@param view stet.View
function M.draw(buf, view)
  local by = shift(buf, view)
  if not by then
    return
  end
  vim.api.nvim_buf_clear_namespace(buf, marks, 0, -1)
  for _, hunk in ipairs(view.hunks) do
    draw_hunk(buf, hunk, by)
  end
  local last = view.range['end'].line - (view.range['end'].character == 0 and 1 or 0)
  local row = math.max(math.min(view.line or view.range.start.line, last), view.range.start.line)
  vim.api.nvim_buf_set_extmark(buf, marks, row + by, 0, {
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
