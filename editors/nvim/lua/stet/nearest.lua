--- Which rewrite and which change the cursor means: the one that it stands in, else the nearest.
local jobs = require('stet.jobs')

local M = {}

--- The rows between a cursor and rows first up to stop.
---@param row integer
---@param first integer
---@param stop integer
---@return integer
local function distance(row, first, stop)
  return math.max(first - row, row - math.max(first, stop - 1), 0)
end

---@generic T : { first: integer, stop: integer }
---@param row integer
---@param list T[]
---@return T?
local function nearest(row, list)
  local best
  for _, each in ipairs(list) do
    if not best or distance(row, each.first, each.stop) < distance(row, best.first, best.stop) then
      best = each
    end
  end
  return best
end

---@param buf integer
---@return integer
local function cursor_row(buf)
  local window = vim.api.nvim_get_current_buf() == buf and 0 or vim.fn.bufwinid(buf)
  return window == -1 and 0 or vim.api.nvim_win_get_cursor(window)[1] - 1
end

--- Of the rewrites of a buffer that are shown.
---@param buf integer
---@param is_meant? fun(job: stet.Job): boolean
---@return stet.Job?
function M.job(buf, is_meant)
  local shown = jobs.shown(buf)
  return nearest(cursor_row(buf), is_meant and vim.tbl_filter(is_meant, shown) or shown)
end

--- Of the changes that can be accepted or rejected.
---@param buf integer
---@return stet.Job?
---@return stet.Hunk?
function M.hunk(buf)
  local job = M.job(buf, jobs.is_proposed)
  return job, job and nearest(cursor_row(buf), jobs.open_hunks(job))
end

return M
