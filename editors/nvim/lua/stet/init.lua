--- What a status line or a config may call. The commands are in commands.lua.
local M = {}

---@param buf? integer
---@return stet.Job?
local function job_of(buf)
  return require('stet.nearest').job(buf or vim.api.nvim_get_current_buf())
end

--- What the buffer's rewrite is doing, for a status line; empty without one.
---@param buf? integer
---@return string
function M.status(buf)
  local job = job_of(buf)
  return job and require('stet.screen').status(job) or ''
end

---@class stet.Info
---@field state 'writing'|'proposed'|string as in stet/progress, or proposed
---@field message string
---@field tokens? integer
---@field tokens_per_second? number
---@field copied_share? number
---@field eta? number seconds
---@field n_changes integer
---@field version? string "2/3" of several

--- The same as values; nil without one. Autocommand User StetChanged says when they change.
---@param buf? integer
---@return stet.Info?
function M.info(buf)
  local job = job_of(buf)
  if not job then
    return nil
  end
  local figures = job.figures
  return {
    state = job.request and (figures.state or 'starting') or 'proposed',
    message = job.message,
    tokens = figures.tokens,
    tokens_per_second = figures.tokensPerSecond,
    copied_share = figures.copiedShare,
    eta = job.request and figures.eta or nil,
    n_changes = #job.hunks,
    version = require('stet.screen').version(job),
  }
end

return M
