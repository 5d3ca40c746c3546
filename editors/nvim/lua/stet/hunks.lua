--- From change to change: go there, accept, reject.
local jobs = require('stet.jobs')
local nearest = require('stet.nearest')
local rewrite = require('stet.rewrite')
local say = require('stet.say')

local M = {}

--- Put the cursor on a change.
---@param hunk stet.Hunk
local function go_to(hunk)
  local row = math.min(hunk.first, vim.api.nvim_buf_line_count(0) - 1)
  vim.cmd("normal! m'")
  vim.api.nvim_win_set_cursor(0, { row + 1, 0 })
  vim.cmd('normal! zv')
end

--- The first change after a row, or before it; round the end of the list.
---@param hunks stet.Hunk[] in the order of the buffer
---@param row integer
---@param step 1|-1
---@return stet.Hunk
local function beyond(hunks, row, step)
  local first, last = 1, #hunks
  if step < 0 then
    first, last = last, first
  end
  for n = first, last, step do
    if (hunks[n].first - row) * step > 0 then
      return hunks[n]
    end
  end
  return hunks[first]
end

---@param step 1|-1
local function move(step)
  local hunks = {}
  for _, job in ipairs(jobs.shown(vim.api.nvim_get_current_buf())) do
    vim.list_extend(hunks, jobs.open_hunks(job))
  end
  if #hunks == 0 then
    say.warn('no change to go to in this buffer')
    return
  end
  table.sort(hunks, function(a, b)
    return a.first < b.first
  end)
  go_to(beyond(hunks, vim.api.nvim_win_get_cursor(0)[1] - 1, step))
end

function M.next()
  move(1)
end

function M.previous()
  move(-1)
end

--- Do something with the change at the cursor, and go on to the next of its rewrite: what is next is to be seen first.
---@param wanted string
---@param deal fun(job: stet.Job, hunk: stet.Hunk)
local function deal_with_nearest(wanted, deal)
  local job, hunk = nearest.hunk(vim.api.nvim_get_current_buf())
  if not job or not hunk then
    say.warn('no change to ' .. wanted .. ' in this buffer')
    return
  end
  deal(job, hunk)
  local others = vim.tbl_filter(function(each)
    return each ~= hunk
  end, jobs.open_hunks(job))
  if #others > 0 then
    go_to(beyond(others, hunk.first, 1))
  end
end

--- Apply the change at the cursor.
function M.accept()
  deal_with_nearest('accept', function(job, hunk)
    rewrite.accept(job, { hunk })
  end)
end

--- Drop the change at the cursor.
function M.reject()
  deal_with_nearest('reject', rewrite.reject)
end

return M
