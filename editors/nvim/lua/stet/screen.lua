--- Keeps what the user sees in step with the jobs: preview, hint, keys, status line, diff.
local jobs = require('stet.jobs')
local keys = require('stet.keys')
local nearest = require('stet.nearest')
local preview = require('stet.preview')

local M = {}

---@type integer? the buffer in a diff: lines drawn into it would shift it against the other side
local compared

--- "2/3" of several versions; nil of a single one.
---@param job stet.Job
---@return string?
function M.version(job)
  local versions = job.group.jobs
  for n, each in ipairs(versions) do
    if each == job and #versions > 1 then
      return ('%d/%d'):format(n, #versions)
    end
  end
end

--- What a job is doing, in words.
---@param job stet.Job
---@return string
function M.status(job)
  local version, eta = M.version(job), job.request and job.figures.eta
  local words = {}
  if version then
    table.insert(words, 'version ' .. version)
  end
  table.insert(words, job.message)
  if eta and eta >= 1 then
    table.insert(words, ('%.0f s left'):format(eta))
  end
  return table.concat(words, ', ')
end

---@param job stet.Job
local function draw(job)
  local key = keys.pressed(job.buf, 'cancel')
  local how = key and (' (%s cancels)'):format(key) or ''
  preview.draw(job, 'stet: ' .. (job.request and M.status(job) .. how or job.message), job.buf == compared)
end

--- Say at the change that is meant by accept and reject which keys there are.
---@param buf integer
function M.hint(buf)
  local job, hunk = nearest.hunk(buf)
  if not job or not hunk then
    preview.hint(buf)
    return
  end
  local open, words = jobs.open_hunks(job), keys.words(buf) or ':StetAccept or :StetReject'
  local n = 1
  while open[n] ~= hunk do
    n = n + 1
  end
  local version = M.version(job)
  local place = ('change %d/%d'):format(n, #open) .. (version and ' of version ' .. version or '')
  preview.hint(buf, hunk.first, place .. ': ' .. words, buf == compared)
end

---@param buf integer
local function offer_keys(buf)
  local actions = {}
  for _, group in ipairs(jobs.groups(buf)) do
    if jobs.is_proposed(group.shown) then
      vim.list_extend(actions, { 'accept', 'reject', 'next', 'previous', 'accept_all', 'reject_all' })
    end
    if #group.jobs > 1 then
      table.insert(actions, 'version')
    end
    for _, job in ipairs(group.jobs) do
      if job.request then
        table.insert(actions, 'cancel')
      end
    end
  end
  keys.offer(buf, actions)
end

--- Something about a buffer's rewrites is other than it was.
---@param buf integer
local function changed(buf)
  M.hint(buf)
  vim.cmd.redrawstatus()
  vim.api.nvim_exec_autocmds('User', { pattern = 'StetChanged', modeline = false, data = { buf = buf } })
end

--- Draw a job as it is now, if it is the one of its group that is shown.
---@param job stet.Job
function M.draw(job)
  offer_keys(job.buf)
  if job.group.shown == job then
    draw(job)
  end
  changed(job.buf)
end

--- Take down what is drawn of a job.
---@param job stet.Job
function M.hide(job)
  preview.clear(job)
end

--- Show this one of its group.
---@param job stet.Job
function M.show(job)
  preview.clear(job.group.shown)
  job.group.shown = job
  M.draw(job)
end

--- Whether the first change of a proposal can be seen in a window.
---@param job stet.Job
---@return boolean
function M.is_in_sight(job)
  local line = job.hunks[1].first + 1
  return vim.iter(vim.fn.win_findbuf(job.buf)):any(function(window)
    return vim.fn.line('w0', window) <= line and line <= vim.fn.line('w$', window)
  end)
end

--- Draw all anew.
function M.draw_all()
  for _, group in ipairs(jobs.groups()) do
    M.draw(group.shown)
  end
end

--- Draw no lines into this buffer any more; without one, into all again.
---@param buf? integer
function M.compare(buf)
  compared = buf
  M.draw_all()
end

vim.api.nvim_create_autocmd('WinResized', {
  group = vim.api.nvim_create_augroup('stet.screen', {}),
  callback = function()
    for _, group in ipairs(jobs.groups()) do
      M.hint(group.buf) -- there may be room now, or none any more
    end
  end,
})

--- Forget a job and all that is drawn of it.
---@param job stet.Job
function M.close(job)
  local group = job.group
  preview.clear(job)
  jobs.close(job)
  offer_keys(job.buf)
  if #group.jobs > 0 then
    draw(group.shown)
  end
  changed(job.buf)
end

--- An accepted edit has just arrived: what it brought is not to be shown beside it.
---@param buf integer
function M.hide_taken(buf)
  for _, job in ipairs(jobs.shown(buf)) do
    if #jobs.open_hunks(job) < #job.hunks then
      draw(job)
      M.hint(buf)
    end
  end
end

return M
