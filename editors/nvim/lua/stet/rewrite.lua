--- What goes over the wire about a rewrite: ask, follow, accept, reject, cancel. Draws nothing (screen.lua), edits
--- nothing (edit.lua).
local config = require('stet.config')
local jobs = require('stet.jobs')
local keys = require('stet.keys')
local say = require('stet.say')
local screen = require('stet.screen')

local M = {}

local CANCELLED, SUPERSEDED = -32800, -32802

---@type stet.Task? the last one, to repeat it elsewhere
M.last = nil
---@type table<integer, stet.Job> by buffer: the last job, if it left the text as it was
M.unchanged = {}

---@param job stet.Job
local function close(job)
  vim.api.nvim_del_augroup_by_name('stet.' .. job.id)
  screen.close(job)
end

--- End a job from this side, whatever it is doing.
---@param job stet.Job
function M.drop(job)
  close(job)
  if job.request then
    -- Neovim swallows the answer to a cancelled request: nothing more will come.
    job.client:cancel_request(job.request)
  else
    job.client:request('stet/reject', { jobId = job.id }, function() end, job.buf)
  end
end

--- Say once what the user's edits took away.
---@param job stet.Job
---@param dropped { id: integer, reason: string }[]
local function say_dropped(job, dropped)
  local n = #dropped - job.n_dropped
  if n > 0 then
    local what = n == 1 and 'a change was dropped' or n .. ' changes were dropped'
    say.warn(('%s: %s'):format(what, dropped[#dropped].reason))
    job.n_dropped = #dropped
  end
end

--- Forget changes that are dealt with.
---@param job stet.Job
---@param ids integer[]
local function forget(job, ids)
  job.hunks = vim.tbl_filter(function(hunk)
    return not vim.list_contains(ids, hunk.id)
  end, job.hunks)
  if #job.hunks == 0 then
    close(job)
  else
    screen.draw(job)
  end
end

--- One version has been accepted: the others are for a text that is no more.
---@param job stet.Job
local function drop_others(job)
  for _, other in ipairs(job.group.jobs) do
    if other ~= job then
      M.drop(other)
    end
  end
end

---@param job stet.Job
---@param ids integer[]
---@param on_applied? fun()
local function send_accept(job, ids, on_applied)
  job.client:request('stet/accept', { jobId = job.id, hunks = ids }, function(err, answer)
    if not jobs.is_alive(job) then
      return
    end
    local waiting = table.remove(job.accepts, 1)
    if not waiting then
      job.accepts = nil
    end
    if err then
      close(job)
      say.error(err.message)
      return
    end
    if not answer.applied then
      say.error(answer.message)
    elseif on_applied then
      on_applied()
    end
    for _, hunk in ipairs(job.hunks) do
      hunk.is_taken = hunk.is_taken and not vim.list_contains(ids, hunk.id)
    end
    if answer.applied then
      drop_others(job)
    end
    forget(job, answer.acceptedHunks)
    say_dropped(job, answer.droppedHunks)
    if waiting and jobs.is_alive(job) then
      send_accept(job, waiting)
    end
  end, job.buf)
end

--- Apply changes as one edit. One accept after another: the server takes no two at once.
---@param job stet.Job
---@param hunks stet.Hunk[]
---@param on_applied? fun()
function M.accept(job, hunks, on_applied)
  local ids = {}
  for _, hunk in ipairs(hunks) do
    hunk.is_taken = true
    table.insert(ids, hunk.id)
  end
  if job.accepts then
    table.insert(job.accepts, ids)
  else
    job.accepts = {}
    send_accept(job, ids, on_applied)
  end
  screen.hint(job.buf)
end

--- Forget a change. Nothing of it has touched the buffer.
---@param job stet.Job
---@param hunk stet.Hunk
function M.reject(job, hunk)
  job.client:request('stet/reject', { jobId = job.id, hunks = { hunk.id } }, function() end, job.buf)
  forget(job, { hunk.id })
end

--- The message, with the project files that went into the prompt if both fit into a line.
---@param message string
---@param context table[]
---@return string
local function with_context(message, context)
  local paths = vim.tbl_map(function(used)
    return used.path
  end, context)
  local text = message .. ', with ' .. table.concat(paths, ', ')
  return #paths > 0 and say.fits('stet: ' .. text) and text or message
end

---@param job stet.Job
---@param result table
local function propose(job, result)
  job.message = with_context(job.message, result.context)
  jobs.take(job, result)
  screen.draw(job)
  local warnings = vim.tbl_map(function(warning)
    return warning.message
  end, result.warnings)
  if #warnings > 0 then
    say.warn(table.concat(warnings, '; '))
  elseif config.get().auto_accept and #job.group.jobs == 1 then
    M.accept(job, job.hunks, function()
      say.info(job.message)
    end)
  elseif not screen.is_in_sight(job) then
    local key = keys.pressed(job.buf, 'next') or ':StetNext'
    say.info(('done: the first of %d changes is in line %d (%s)'):format(#job.hunks, job.hunks[1].first + 1, key))
  end
end

---@param job stet.Job
---@param err? lsp.ResponseError
---@param result? table
local function on_answer(job, err, result)
  if not jobs.is_alive(job) then
    return
  end
  job.request = nil
  if err or not result then
    close(job)
    local message = err and err.message or 'the server gave no answer'
    if not err or (err.code ~= CANCELLED and err.code ~= SUPERSEDED) then
      say.error(message .. (message:find('stet models fetch', 1, true) and ' (or :StetSetup)' or ''))
    end
  elseif result.status == 'unchanged' then
    local is_other = #job.group.jobs > 1
    close(job)
    M.unchanged[job.buf] = not is_other and job or nil
    say.info(is_other and 'no other version: it came out unchanged' or 'nothing to change (:StetAgain tries once more)')
  else
    propose(job, result)
  end
end

--- A job ends with its buffer, and with its server.
---@param job stet.Job
local function watch(job)
  local group = vim.api.nvim_create_augroup('stet.' .. job.id, {})
  local function on(event, callback)
    vim.api.nvim_create_autocmd(event, { group = group, buffer = job.buf, callback = callback })
  end
  on('CursorMoved', function()
    screen.hint(job.buf)
  end)
  on('BufUnload', function()
    M.drop(job)
  end)
  on('LspDetach', function(event)
    if event.data.client_id == job.client.id then
      -- Neovim itself says how a server ended. `:edit` detaches as well, and reads the file at once.
      close(job)
      local id = vim.api.nvim_create_autocmd('BufReadPost', {
        buffer = job.buf,
        once = true,
        callback = function()
          say.warn('the buffer was read anew, which ends its rewrite')
        end,
      })
      vim.schedule(function()
        pcall(vim.api.nvim_del_autocmd, id)
      end)
    end
  end)
end

---@param job stet.Job
---@param params table of stet/rewrite, without the document
local function send(job, params)
  watch(job)
  params.jobId = job.id
  params.textDocument = job.target.params.textDocument
  -- The buffer's number, never 0: Neovim sends the changes that it still holds back only for a real number.
  local sent, request = job.client:request('stet/rewrite', params, function(err, result)
    on_answer(job, err, result)
  end, job.buf)
  job.request = request
  if sent then
    screen.draw(job)
  else
    close(job)
    say.error('the language server has stopped (:checkhealth stet)')
  end
end

--- Rewrite.
---@param target stet.Target
---@param task stet.Task
---@param again? boolean the last answer was no change
function M.start(target, task, again)
  M.last = { instruction = task.instruction, recipe = task.recipe }
  M.unchanged[target.buf] = nil
  if vim.api.nvim_get_current_buf() == target.buf then
    vim.cmd('silent! .foldopen!') -- nothing is shown in a closed fold
  end
  if task.instruction then
    vim.fn.histadd('@', task.instruction)
  end
  local params = vim.tbl_extend('error', { range = target.params.range, again = again }, task)
  send(jobs.open(target, task), params)
end

--- Ask for another version of a proposal.
---@param job stet.Job
---@param params { alternativeTo: string }|{ refines: string, instruction?: string, recipe?: string }
function M.vary(job, params)
  local uri = job.target.params.textDocument.uri
  local document = { uri = uri, version = vim.lsp.util.buf_versions[job.buf] }
  local target =
    { client = job.client, buf = job.buf, params = { textDocument = document, range = job.target.params.range } }
  screen.hide(job.group.shown)
  send(jobs.open(target, job.task, job.group), params)
end

--- `stet/progress`
---@param progress table
function M.on_progress(progress)
  local job = jobs.get(progress.jobId)
  if not job then
    return
  end
  job.message = progress.message
  if progress.state == 'stale' then
    -- Of several versions one goes for a reason that the user knows: another was accepted, or a fourth was asked for.
    local is_last = #job.group.jobs == 1
    close(job)
    if is_last then
      say.warn(progress.message)
    end
  elseif progress.state == 'cancelled' then
    close(job)
  elseif progress.state ~= 'failed' then
    job.figures = progress
    jobs.take(job, progress)
    screen.draw(job)
    say_dropped(job, progress.droppedHunks)
  end
end

return M
