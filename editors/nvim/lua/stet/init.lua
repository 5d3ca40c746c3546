--- The jobs: from the instruction to the accepted edit, one for each buffer. Draws nothing (preview.lua), edits
--- nothing (edit.lua).
local preview = require('stet.preview')
local range = require('stet.range')

local M = {}

---@class stet.Config vim.g.stet
---@field auto_accept? boolean apply a rewrite as soon as it is done, unless it has warnings (default true)

---@class stet.Target what a rewrite is asked of
---@field client vim.lsp.Client
---@field buf integer
---@field params { textDocument: lsp.OptionalVersionedTextDocumentIdentifier, range: lsp.Range }

---@class stet.Job
---@field id string
---@field buf integer
---@field client vim.lsp.Client
---@field target stet.Target
---@field instruction string
---@field request? integer id of stet/rewrite while it is unanswered
---@field message string what it is doing, with its figures
---@field n_dropped integer changes that the user's edits took away, as far as said

---@type table<integer, stet.Job> by buffer
local jobs = {}
---@type table<integer, stet.Job> by buffer: the last job, if it left the text as it was
local unchanged = {}
local n_jobs = 0
local HINT = ' (:StetAccept or :StetReject)'

--- One line. nvim_echo(), under vim.notify(), waits for a key after a message wider than the screen, and so eats one that
--- the user is typing. :echomsg shortens it (outside a command: hence the schedule), and :messages has all of it.
---@param text string
---@param level? integer
local function say(text, level)
  text = 'stet: ' .. text:gsub('%s*\n%s*', ' ')
  if vim.fn.strdisplaywidth(text) <= vim.v.echospace then
    vim.notify(text, level or vim.log.levels.INFO)
    return
  end
  vim.schedule(function()
    vim.cmd.echohl(level == vim.log.levels.ERROR and 'ErrorMsg' or 'None')
    vim.cmd.echomsg(vim.fn.string(text))
    vim.cmd.echohl('None')
  end)
end

local function say_error(text)
  say(text, vim.log.levels.ERROR)
end

---@param job stet.Job
---@return boolean
local function is_alive(job)
  return jobs[job.buf] == job
end

--- Forget a job and all that is drawn of it.
---@param job stet.Job
local function close(job)
  jobs[job.buf] = nil
  preview.clear(job.buf)
  vim.api.nvim_del_augroup_by_name('stet.' .. job.id)
end

--- End a job from this side, whatever it is doing.
---@param job stet.Job
local function drop(job)
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
    say(('%s: %s'):format(what, dropped[#dropped].reason), vim.log.levels.WARN)
    job.n_dropped = #dropped
  end
end

--- Draw how far a job is.
---@param job stet.Job
---@param view stet.View
local function show(job, view)
  local message = job.message .. (job.request and '' or HINT)
  preview.draw(job.buf, vim.tbl_extend('force', view, { message = message }), job.client.offset_encoding)
end

---@param job stet.Job
local function accept(job)
  job.client:request('stet/accept', { jobId = job.id }, function(err, answer)
    if not is_alive(job) then
      return
    end
    if err then
      close(job)
      say_error(err.message)
    elseif answer.applied then
      close(job)
      say(job.message)
      say_dropped(job, answer.droppedHunks)
    else
      say_error(answer.message)
    end
  end, job.buf)
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
  return #paths > 0 and vim.fn.strdisplaywidth('stet: ' .. text) <= vim.v.echospace and text or message
end

---@param job stet.Job
---@param err? lsp.ResponseError
---@param result? table
local function on_answer(job, err, result)
  if not is_alive(job) then
    return
  end
  job.request = nil
  if err or not result then
    close(job)
    say_error(err and err.message or 'the server gave no answer')
  elseif result.status == 'unchanged' then
    close(job)
    unchanged[job.buf] = job
    say('nothing to change (:StetAgain tries once more)')
  else
    job.message = with_context(job.message, result.context)
    if M.config().auto_accept and #result.warnings == 0 then
      accept(job)
      return
    end
    show(job, result)
    if #result.warnings > 0 then
      say(job.message .. HINT, vim.log.levels.WARN)
    end
  end
end

--- A job ends with its buffer, and with its server.
---@param job stet.Job
local function watch(job)
  local group = vim.api.nvim_create_augroup('stet.' .. job.id, {})
  vim.api.nvim_create_autocmd('BufUnload', {
    group = group,
    buffer = job.buf,
    callback = function()
      drop(job)
    end,
  })
  vim.api.nvim_create_autocmd('LspDetach', {
    group = group,
    buffer = job.buf,
    callback = function(event)
      if event.data.client_id == job.client.id then
        -- Neovim itself says how a server ended.
        close(job)
      end
    end,
  })
end

---@param target stet.Target
---@param instruction string
---@param again? boolean the last answer was no change
local function rewrite(target, instruction, again)
  local buf, client = target.buf, target.client
  if jobs[buf] then
    drop(jobs[buf])
  end
  unchanged[buf] = nil
  n_jobs = n_jobs + 1
  ---@type stet.Job
  local job = {
    id = 'nvim-' .. n_jobs,
    buf = buf,
    client = client,
    target = target,
    instruction = instruction,
    message = '',
    n_dropped = 0,
  }
  local asked = { instruction = instruction, jobId = job.id, again = again }
  local params = vim.tbl_extend('error', target.params, asked)
  jobs[buf] = job
  watch(job)
  -- The buffer's number, never 0: Neovim sends the changes that it still holds back only for a real number.
  local sent, request = client:request('stet/rewrite', params, function(err, result)
    on_answer(job, err, result)
  end, buf)
  job.request = request
  if not sent then
    close(job)
    say_error('the language server has stopped (:checkhealth stet)')
  end
end

--- Ask for the instruction. The engine reads the code while the user types.
---@param target stet.Target
local function ask(target)
  local client = target.client
  local _, request = client:request('stet/prepare', target.params, function() end, target.buf)
  vim.ui.input({ prompt = 'Stet: ' }, function(instruction)
    if instruction and instruction:find('%S') then
      rewrite(target, instruction)
    elseif request and client.requests[request] then
      client:cancel_request(request)
    end
  end)
end

---@param range_of fun(encoding: string): lsp.Range
---@return stet.Target?
local function target_here(range_of)
  local buf = vim.api.nvim_get_current_buf()
  local client = vim.lsp.get_clients({ bufnr = buf, name = 'stet' })[1]
  if not client then
    say_error("no language server in this buffer: vim.lsp.enable('stet') starts it (:checkhealth stet)")
    return
  end
  local document = { uri = vim.uri_from_bufnr(buf), version = vim.lsp.util.buf_versions[buf] }
  return {
    client = client,
    buf = buf,
    params = { textDocument = document, range = range_of(client.offset_encoding) },
  }
end

---@return stet.Config
function M.config()
  return vim.tbl_extend('force', { auto_accept = true }, vim.g.stet or {})
end

--- `:[range]Stet [instruction]`
---@param args vim.api.keyset.create_user_command.command_args
function M.command(args)
  local target = target_here(function(encoding)
    return range.of_command(args, encoding)
  end)
  if target and args.args:find('%S') then
    rewrite(target, args.args)
  elseif target then
    ask(target)
  end
end

--- Ask, then rewrite the block at the cursor.
function M.ask()
  local target = target_here(range.cursor)
  if target then
    ask(target)
  end
end

--- Ask, then rewrite the selection of the running visual mode.
function M.ask_selection()
  local target = target_here(range.selection)
  vim.cmd.normal({ vim.keycode('<Esc>'), bang = true })
  if target then
    ask(target)
  end
end

---@param wanted string
---@return stet.Job?
local function job_here(wanted)
  local job = jobs[vim.api.nvim_get_current_buf()]
  if not job then
    say('no rewrite to ' .. wanted .. ' in this buffer', vim.log.levels.WARN)
  end
  return job
end

--- Apply the rewrite that is shown.
function M.accept()
  local job = job_here('accept')
  if job and job.request then
    say('still being written', vim.log.levels.WARN)
  elseif job then
    accept(job)
  end
end

--- Drop the rewrite that is shown, or stop the one that is running.
function M.reject()
  local job = job_here('reject')
  if job then
    drop(job)
  end
end

--- Stop the rewrite that is running.
function M.cancel()
  local job = job_here('cancel')
  if job then
    drop(job)
    say('cancelled')
  end
end

--- Repeat the rewrite that changed nothing, in firmer words.
function M.again()
  local buf = vim.api.nvim_get_current_buf()
  local last = unchanged[buf]
  if not last then
    say('no rewrite to try again in this buffer', vim.log.levels.WARN)
  elseif last.target.params.textDocument.version ~= vim.lsp.util.buf_versions[buf] then
    say('the buffer has changed since: use :Stet', vim.log.levels.WARN)
  else
    rewrite(last.target, last.instruction, true)
  end
end

--- What the buffer's rewrite is doing, for a status line; empty without one.
---@param buf? integer
---@return string
function M.status(buf)
  local job = jobs[buf or vim.api.nvim_get_current_buf()]
  return job and job.message or ''
end

--- `stet/progress`
---@param progress table
function M.on_progress(progress)
  local job = vim.iter(vim.tbl_values(jobs)):find(function(job)
    return job.id == progress.jobId
  end)
  if not job then
    return
  end
  job.message = progress.message
  if progress.state == 'cancelled' then
    close(job)
  elseif progress.state == 'stale' then
    close(job)
    say(progress.message, vim.log.levels.WARN)
  elseif progress.state ~= 'failed' then
    show(job, progress)
    say_dropped(job, progress.droppedHunks)
  end
end

return M
