--- Neovim's own diff of the buffer and a proposal, in a tab of its own.
local jobs = require('stet.jobs')
local keys = require('stet.keys')
local lines_of = require('stet.lines')
local nearest = require('stet.nearest')
local say = require('stet.say')
local screen = require('stet.screen')

local M = {}

---@class stet.Diff
---@field group stet.Group
---@field scratch integer the buffer with the proposed text
---@field source integer the window beside it

---@type stet.Diff?
local open

--- The buffer's lines, with all changes that are left applied.
---@param job stet.Job
---@return string[]
local function proposed_lines(job)
  local lines = vim.api.nvim_buf_get_lines(job.buf, 0, -1, false)
  for _, hunk in ipairs(vim.iter(job.hunks):rev():totable()) do
    local new = lines_of.of(job.buf, hunk, job.client.offset_encoding)
    lines =
      vim.list_extend(vim.list_extend(vim.list_slice(lines, 1, hunk.first), new), vim.list_slice(lines, hunk.stop + 1))
  end
  return lines
end

---@param diff stet.Diff
local function fill(diff)
  vim.bo[diff.scratch].modifiable = true
  vim.api.nvim_buf_set_lines(diff.scratch, 0, -1, false, proposed_lines(diff.group.shown))
  vim.bo[diff.scratch].modifiable = false
  keys.offer(diff.scratch, keys.offered(diff.group.buf))
end

--- Forget the diff, and close its two windows; the tab goes with them.
local function close()
  local diff = open
  open = nil
  if not diff then
    return
  end
  screen.compare()
  if vim.api.nvim_win_is_valid(diff.source) then
    vim.api.nvim_win_call(diff.source, vim.cmd.diffoff)
    pcall(vim.api.nvim_win_close, diff.source, false)
  end
  if vim.api.nvim_buf_is_valid(diff.scratch) then
    vim.api.nvim_buf_delete(diff.scratch, { force = true })
  end
  keys.offer(diff.scratch, {})
end

---@param job stet.Job
local function show(job)
  vim.cmd('tab split')
  local source = vim.api.nvim_get_current_win()
  vim.cmd('rightbelow vertical new')
  local scratch = vim.api.nvim_get_current_buf()
  vim.bo[scratch].buftype = 'nofile'
  vim.bo[scratch].bufhidden = 'wipe'
  vim.bo[scratch].filetype = vim.bo[job.buf].filetype
  vim.api.nvim_buf_set_name(scratch, 'stet://' .. job.id)
  open = { group = job.group, scratch = scratch, source = source }
  fill(open)
  vim.cmd.diffthis()
  vim.keymap.set('n', 'q', close, { buffer = scratch, desc = 'Stet: close the diff' })
  local close_soon = vim.schedule_wrap(close)
  vim.api.nvim_create_autocmd('BufWipeout', { buffer = scratch, callback = close_soon })
  vim.api.nvim_create_autocmd('WinClosed', { pattern = tostring(source), once = true, callback = close_soon })
  vim.api.nvim_set_current_win(source)
  vim.cmd.diffthis()
  screen.compare(job.buf)
end

vim.api.nvim_create_autocmd('User', {
  pattern = 'StetChanged',
  group = vim.api.nvim_create_augroup('stet.diff', {}),
  callback = function()
    if not open then
      return
    elseif #open.group.jobs == 0 then
      vim.schedule(close) -- while a buffer is wiped out no other may be deleted
    elseif jobs.is_proposed(open.group.shown) then
      fill(open)
    end
  end,
})

--- Go from the proposed text to the buffer beside it: what is asked there is meant for that one.
function M.to_source()
  if open and vim.api.nvim_get_current_buf() == open.scratch then
    vim.api.nvim_set_current_win(open.source)
  end
end

--- Open the diff of the proposal at the cursor, or close the one that is open.
function M.toggle()
  local job = nearest.job(vim.api.nvim_get_current_buf(), jobs.is_proposed)
  if open then
    close()
  elseif job then
    show(job)
  else
    say.warn('no proposal to compare with in this buffer')
  end
end

return M
