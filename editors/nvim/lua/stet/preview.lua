--- Draws rewrites beside the buffer's text: extmarks and virtual lines only. Knows no requests.
local lines_of = require('stet.lines')

local M = {}

local marks = vim.api.nvim_create_namespace('stet')
---@type table<string, integer[]> the marks of each job
local drawn = {}
---@type table<integer, integer> by buffer: the mark of its hint
local hints = {}

local GROUPS = {
  StetAdd = 'DiffAdd',
  StetDelete = 'DiffDelete',
  StetWord = 'DiffText',
  StetWritten = 'DiffText',
  StetCopied = 'Comment',
  StetStatus = 'Comment',
  StetHint = 'NonText',
}
for group, link in pairs(GROUPS) do
  vim.api.nvim_set_hl(0, group, { link = link, default = true })
end

--- Whether new lines show what the model wrote, rather than what differs.
M.shows_written = false

---@class stet.Chunks a line of new text in parts
---@field line string highlight group of what doesn't stand out
---@field part string highlight group of what does

--- The lines as virtual ones. They show a tab as it is, so it is spelt out in spaces.
---@param buf integer
---@param lines string[]
---@param parts table<integer, [integer, integer][]> by line, from 1: bytes of it that stand out
---@param groups stet.Chunks
---@return [string, string][][]
local function virtual_lines(buf, lines, parts, groups)
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
    for _, part in ipairs(parts[n] or {}) do
      add(part[1], groups.line)
      add(part[2], groups.part)
    end
    add(#line, groups.line)
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

---@param job stet.Job
---@param row integer
---@param col integer
---@param opts vim.api.keyset.set_extmark
local function mark(job, row, col, opts)
  opts.strict = false
  table.insert(drawn[job.id], vim.api.nvim_buf_set_extmark(job.buf, marks, row, col, opts))
end

--- Draw lines as the new text of rows first up to stop.
---@param job stet.Job
---@param first integer
---@param stop integer
---@param new [string, string][][]
local function draw_new(job, first, stop, new)
  if #new == 0 then
    return
  end
  -- An insertion stays above the line it is put before, also when the line above goes.
  local is_above = first == stop and first < vim.api.nvim_buf_line_count(job.buf)
  mark(job, is_above and first or stop - 1, 0, { virt_lines = new, virt_lines_above = is_above })
  if is_above and first == 0 then
    show_above_first_line(job.buf, #new)
  end
end

---@param job stet.Job
---@param first integer
---@param stop integer
local function draw_old(job, first, stop)
  if stop > first then
    mark(job, first, 0, { end_row = stop, hl_group = 'StetDelete', hl_eol = true })
  end
end

--- What stands out in a hunk's new lines, in bytes of them.
---@param lines string[]
---@param parts stet.Part[]
---@param n_before integer bytes of the first line that aren't the hunk's
---@param encoding string
---@return table<integer, [integer, integer][]>
local function bytes_of(lines, parts, n_before, encoding)
  local found = {}
  for _, part in ipairs(parts) do
    local n = part.line + 1
    local by = n == 1 and n_before or 0
    local text = lines[n]:sub(by + 1)
    local start, stop =
      vim.str_byteindex(text, encoding, part.start, false), vim.str_byteindex(text, encoding, part['end'], false)
    found[n] = vim.list_extend(found[n] or {}, { { by + start, by + stop } })
  end
  return found
end

---@param job stet.Job
---@param hunk stet.Hunk
local function draw_hunk(job, hunk)
  local encoding = job.client.offset_encoding
  local lines, n_before = lines_of.of(job.buf, hunk, encoding)
  local is_split = M.shows_written and hunk.written ~= nil
  local parts = bytes_of(lines, is_split and hunk.written or hunk.added, n_before, encoding)
  local groups = is_split and { line = 'StetCopied', part = 'StetWritten' } or { line = 'StetAdd', part = 'StetWord' }
  draw_old(job, hunk.first, hunk.stop)
  draw_new(job, hunk.first, hunk.stop, virtual_lines(job.buf, lines, parts, groups))
  for _, range in ipairs(hunk.removed) do
    local row = hunk.first + range.start.line - hunk.range.start.line
    mark(job, row, #lines_of.around(job.buf, row, range.start.character, encoding), {
      end_row = row,
      end_col = #lines_of.around(job.buf, row, range['end'].character, encoding),
      hl_group = 'StetWord',
      priority = vim.hl.priorities.user + 1,
    })
  end
end

--- What has been written since the last line that is final.
---@param job stet.Job
---@return string[]
local function pending_lines(job)
  local text = job.view.text
  if job.view.finalLines == 0 and job.view.range.start.character > 0 and text ~= '' then
    text = lines_of.around(job.buf, job.first, job.view.range.start.character, job.client.offset_encoding) .. text
  end
  return vim.list_slice(lines_of.split(text), job.view.finalLines + 1)
end

--- Draw what is not final yet, as it looks now beside the old lines ahead, of which the model has not reached the last.
---@param job stet.Job
---@return integer row where the writing is
local function draw_pending(job)
  local row = job.line
  local pending = pending_lines(job)
  if #pending == 0 then
    return row
  end
  local old = vim.api.nvim_buf_get_lines(job.buf, row, job.stop, false)
  local function text(lines)
    return table.concat(lines, '\n') .. '\n'
  end
  for _, change in
    ipairs(vim.diff(text(old), text(pending), { result_type = 'indices' }) --[[@as integer[][] ]])
  do
    local at, n_old, new_at, n_new = unpack(change)
    -- An insertion is said to be at the line before it.
    local first = row + at - (n_old > 0 and 1 or 0)
    local is_ahead = first + n_old >= row + #old
    local stop = is_ahead and first or first + n_old
    local new = vim.list_slice(pending, new_at, new_at + n_new - 1)
    draw_old(job, first, stop)
    draw_new(job, first, stop, virtual_lines(job.buf, new, {}, { line = 'StetAdd', part = 'StetWord' }))
    if is_ahead then
      return first
    end
  end
  return row + #old
end

--- Replace what is drawn of a job by how far it is now.
---@param job stet.Job
---@param status string
---@param is_aligned? boolean draw nothing but the status while it is written: the text would be shifted
function M.draw(job, status, is_aligned)
  M.clear(job)
  if not job.view then
    return
  end
  drawn[job.id] = {}
  for _, hunk in ipairs(is_aligned and {} or job.hunks) do
    if not hunk.is_taken then
      draw_hunk(job, hunk)
    end
  end
  if is_aligned and not job.request then
    return -- the little room at the ends of lines is for the hint
  end
  local row = job.request and (is_aligned and job.line or draw_pending(job)) or job.first
  mark(job, math.max(0, math.min(row, job.stop - 1)), 0, { virt_text = { { status, 'StetStatus' } } })
end

--- Take down all that is drawn of a job.
---@param job stet.Job
function M.clear(job)
  if vim.api.nvim_buf_is_valid(job.buf) then
    for _, id in ipairs(drawn[job.id] or {}) do
      vim.api.nvim_buf_del_extmark(job.buf, marks, id)
    end
  end
  drawn[job.id] = nil
end

--- Columns for text in the narrowest window that shows the buffer, and how many of them are free behind a row.
---@param buf integer
---@param row integer
---@return integer
---@return integer
local function room_of(buf, row)
  local line = vim.api.nvim_buf_get_lines(buf, row, row + 1, false)[1] or ''
  local width = vim.fn.strdisplaywidth(line)
  local room, free = math.huge, math.huge
  for _, window in ipairs(vim.fn.win_findbuf(buf)) do
    local info = vim.fn.getwininfo(window)[1]
    local columns = info.width - info.textoff
    room = math.min(room, columns)
    free = math.min(free, columns - (vim.wo[window].wrap and width % columns or width))
  end
  return room, free
end

--- The text in lines of so many columns, broken between its parts.
---@param text string
---@param room integer
---@return [string, string][][]
local function wrapped(text, room)
  local lines = {}
  for part in vim.gsplit(text, ' · ', { plain = true }) do
    local longer = #lines > 0 and lines[#lines] .. ' · ' .. part
    if longer and vim.fn.strdisplaywidth(longer) <= room then
      lines[#lines] = longer
    else
      table.insert(lines, part)
    end
  end
  return vim.tbl_map(function(line)
    return { { line, 'StetHint' } }
  end, lines)
end

--- Put a buffer's one hint at the end of a row, or take it down.
---@param buf integer
---@param row? integer
---@param text? string
---@param is_aligned? boolean keep what there is room for there, rather than all in lines above
function M.hint(buf, row, text, is_aligned)
  if not vim.api.nvim_buf_is_valid(buf) then
    hints[buf] = nil
    return
  end
  if hints[buf] then
    vim.api.nvim_buf_del_extmark(buf, marks, hints[buf])
    hints[buf] = nil
  end
  if row then
    row = math.min(row, vim.api.nvim_buf_line_count(buf) - 1)
    local room, free = room_of(buf, row)
    local opts = { virt_text = wrapped(text, math.max(free - 1, 0))[1], priority = 1 }
    if not is_aligned and vim.fn.strdisplaywidth(text) >= free then
      opts = { virt_lines = wrapped(text, room), virt_lines_above = true }
    end
    hints[buf] = vim.api.nvim_buf_set_extmark(buf, marks, row, 0, opts)
    if opts.virt_lines and row == 0 then
      show_above_first_line(buf, #opts.virt_lines)
    end
  end
end

return M
