--- All rewrites that run or wait for the user, and where their lines are now. Asks the server nothing, draws nothing.
local places = require('stet.places')

local M = {}

---@class stet.Task what to do
---@field instruction? string
---@field recipe? string
---@field diagnostics? lsp.Diagnostic[]

---@class stet.Target what a rewrite is asked of
---@field client vim.lsp.Client
---@field buf integer
---@field params { textDocument: lsp.OptionalVersionedTextDocumentIdentifier, range: lsp.Range }

---@class stet.Group versions of one rewrite: up to three for the same lines, of which one is shown
---@field buf integer
---@field jobs stet.Job[] oldest first
---@field shown stet.Job

---@class stet.View how far a rewrite is: stet/progress, or the answer to stet/rewrite
---@field version integer
---@field range lsp.Range
---@field hunks stet.Hunk[] final ones
---@field droppedHunks { id: integer, reason: string }[]
---@field line? integer where the writing is: what comes before is final
---@field text? string all that has been written so far
---@field finalLines? integer so many lines of it are final

---@class stet.Job
---@field id string
---@field buf integer
---@field client vim.lsp.Client
---@field group stet.Group
---@field target stet.Target
---@field task stet.Task
---@field request? integer id of stet/rewrite while it is unanswered
---@field message string what it is doing, with its figures
---@field figures table those of the last stet/progress
---@field view? stet.View the last one
---@field first integer row that it begins in
---@field stop integer row after the last
---@field line? integer row where the writing is
---@field hunks stet.Hunk[] those that are left
---@field changes stet.Change[] of the buffer since the view's version
---@field n_dropped integer changes that the user's edits took away, as far as said
---@field accepts? integer[][] hunks whose accept waits for another one's answer; nil: none is under way

---@type stet.Group[]
local groups = {}
local n_jobs = 0

---@param job stet.Job
---@param change stet.Change
local function follow(job, change)
  table.insert(job.changes, change)
  job.first, job.stop = places.moved(job.first, job.stop, change)
  job.line = job.line and places.moved(job.line, job.line, change)
  for _, hunk in ipairs(job.hunks) do
    hunk.first, hunk.stop = places.moved(hunk.first, hunk.stop, change)
  end
end

--- A new job, which becomes the one that is shown of its group.
---@param target stet.Target
---@param task stet.Task
---@param group? stet.Group it is another version of these
---@return stet.Job
function M.open(target, task, group)
  n_jobs = n_jobs + 1
  if not group then
    group = { buf = target.buf, jobs = {} }
    table.insert(groups, group)
  end
  ---@type stet.Job
  local job = {
    id = 'nvim-' .. n_jobs,
    buf = target.buf,
    client = target.client,
    group = group,
    target = target,
    task = task,
    message = 'asking',
    figures = {},
    first = 0,
    stop = 0,
    hunks = {},
    changes = {},
    n_dropped = 0,
  }
  table.insert(group.jobs, job)
  group.shown = job
  places.watch(job.buf, function(change)
    if not M.is_alive(job) then
      return true
    end
    follow(job, change)
  end)
  return job
end

--- Forget a job. The newest other version of its group is shown instead.
---@param job stet.Job
function M.close(job)
  local group = job.group
  group.jobs = vim.tbl_filter(function(each)
    return each ~= job
  end, group.jobs)
  if #group.jobs == 0 then
    groups = vim.tbl_filter(function(each)
      return each ~= group
    end, groups)
  elseif group.shown == job then
    group.shown = group.jobs[#group.jobs]
  end
end

---@param id string
---@return stet.Job?
function M.get(id)
  for _, group in ipairs(groups) do
    for _, job in ipairs(group.jobs) do
      if job.id == id then
        return job
      end
    end
  end
end

---@param job stet.Job
---@return boolean
function M.is_alive(job)
  return M.get(job.id) == job
end

--- The groups of a buffer; of all without one.
---@param buf? integer
---@return stet.Group[]
function M.groups(buf)
  return vim.tbl_filter(function(group)
    return buf == nil or group.buf == buf
  end, groups)
end

--- The rewrites of a buffer that are shown.
---@param buf integer
---@return stet.Job[]
function M.shown(buf)
  return vim.tbl_map(function(group)
    return group.shown
  end, M.groups(buf))
end

--- Those of a job's changes that are not on their way into the buffer.
---@param job stet.Job
---@return stet.Hunk[]
function M.open_hunks(job)
  return vim.tbl_filter(function(hunk)
    return not hunk.is_taken
  end, job.hunks)
end

--- Whether it is written, and waits for the user.
---@param job stet.Job
---@return boolean
function M.is_proposed(job)
  return not job.request and #M.open_hunks(job) > 0
end

--- Take how far a job is. What the view speaks of may be an older version of the buffer.
---@param job stet.Job
---@param view stet.View
function M.take(job, view)
  job.changes = vim.tbl_filter(function(change)
    return change.version > view.version
  end, job.changes)
  local function now(first, stop)
    for _, change in ipairs(job.changes) do
      first, stop = places.moved(first, stop, change)
    end
    return first, stop
  end
  local is_taken = {}
  for _, hunk in ipairs(job.hunks) do
    is_taken[hunk.id] = hunk.is_taken
  end
  for _, hunk in ipairs(view.hunks) do
    hunk.first, hunk.stop = now(places.rows(hunk.range))
    hunk.is_taken = is_taken[hunk.id]
  end
  job.view = view
  job.hunks = view.hunks
  job.first, job.stop = now(places.rows(view.range))
  job.line = view.line and now(view.line, view.line)
end

return M
