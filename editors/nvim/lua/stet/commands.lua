--- The user commands and <Plug> maps: what is meant here, and who does it.
local ask = require('stet.ask')
local fix = require('stet.fix')
local jobs = require('stet.jobs')
local nearest = require('stet.nearest')
local range = require('stet.range')
local rewrite = require('stet.rewrite')
local say = require('stet.say')

local M = {}

local COMPLETE_MS = 1000

--- What a rewrite is asked of in the current buffer.
---@param range_of fun(encoding: string): lsp.Range
---@return stet.Target?
local function target_here(range_of)
  local buf = vim.api.nvim_get_current_buf()
  local client = vim.lsp.get_clients({ bufnr = buf, name = 'stet' })[1]
  if not client then
    say.error("no language server in this buffer: vim.lsp.enable('stet') starts it (:checkhealth stet)")
    return
  end
  if vim.api.nvim_buf_get_name(buf) == '' then
    -- Neovim would look for a file named / when the edit comes.
    say.error('give the buffer a name first (:file NAME)')
    return
  end
  if not vim.bo[buf].modifiable then
    say.error("this buffer can't be changed: 'modifiable' is off")
    return
  end
  local document = { uri = vim.uri_from_bufnr(buf), version = vim.lsp.util.buf_versions[buf] }
  return { client = client, buf = buf, params = { textDocument = document, range = range_of(client.offset_encoding) } }
end

--- Of what a command was given, or of the cursor or selection if a map calls. Ends visual mode.
---@param args? vim.api.keyset.create_user_command.command_args
---@return stet.Target?
local function target_of(args)
  local target = target_here(function(encoding)
    return range.of_command(args or { range = 0 }, encoding)
  end)
  if range.is_visual() then
    vim.cmd.normal({ vim.keycode('<Esc>'), bang = true })
  end
  return target
end

--- Ask for the instruction. The engine reads the code while the user types.
---@param target stet.Target
local function ask_and_rewrite(target)
  local client = target.client
  local _, request = client:request('stet/prepare', target.params, function() end, target.buf)
  ask.instruction('Stet: ', function(task)
    rewrite.start(target, task)
  end, function()
    if request and client.requests[request] then
      client:cancel_request(request)
    end
  end)
end

--- `:[range]Stet [instruction]`
---@param args? vim.api.keyset.create_user_command.command_args
function M.rewrite(args)
  local target = target_of(args)
  if target and args and args.args ~= '' then
    ask.task_of(target, args.args, function(task)
      rewrite.start(target, task)
    end)
  elseif target then
    ask_and_rewrite(target)
  end
end

--- What `:Stet` can be completed to: the recipes that suit the buffer.
---@param lead string
---@return string[]
function M.complete(lead)
  local client = vim.lsp.get_clients({ bufnr = 0, name = 'stet' })[1]
  local buf = vim.api.nvim_get_current_buf()
  local params = { textDocument = { uri = vim.uri_from_bufnr(buf) } }
  local answer = client and client:request_sync('stet/recipes', params, COMPLETE_MS, buf)
  local ids = vim.tbl_map(function(recipe)
    return recipe.id
  end, ask.without_fix(answer and answer.result and answer.result.recipes or {}))
  return vim.tbl_filter(function(id)
    return vim.startswith(id, lead)
  end, ids)
end

--- Pick a recipe, then rewrite.
---@param args? vim.api.keyset.create_user_command.command_args
function M.recipe(args)
  local target = target_of(args)
  if target then
    ask.recipe(target, function(task)
      rewrite.start(target, task)
    end)
  end
end

--- Fix what any language server or linter reports of the range, or at the cursor.
---@param args? vim.api.keyset.create_user_command.command_args
function M.fix(args)
  local target = target_of(args)
  if not target then
    return
  end
  local rows = args and args.range > 0 and { args.line1 - 1, args.line2 - 1 } or nil
  local diagnostics = fix.diagnostics(rows, target.client.offset_encoding)
  if #diagnostics == 0 then
    say.warn('nothing is reported here')
  else
    rewrite.start(target, { recipe = ask.FIX, diagnostics = diagnostics })
  end
end

--- What was chosen in the menu of code actions: shown first, like any rewrite.
---@param command lsp.Command
---@param ctx lsp.HandlerContext
function M.code_action(command, ctx)
  local argument = command.arguments[1]
  local document = { uri = argument.textDocument.uri, version = ctx.version }
  local target = {
    client = vim.lsp.get_client_by_id(ctx.client_id),
    buf = vim.uri_to_bufnr(document.uri),
    params = { textDocument = document, range = argument.range },
  }
  rewrite.start(target, {
    instruction = argument.instruction,
    recipe = argument.recipe,
    diagnostics = argument.diagnostics,
  })
end

--- Do the same once more, somewhere else.
---@param args? vim.api.keyset.create_user_command.command_args
function M.repeat_last(args)
  if not rewrite.last then
    say.warn('nothing to repeat yet')
  elseif rewrite.last.recipe == ask.FIX then
    M.fix(args)
  else
    local target = target_of(args)
    if target then
      rewrite.start(target, rewrite.last)
    end
  end
end

---@param wanted string
---@param is_meant? fun(job: stet.Job): boolean
---@return stet.Job?
local function job_here(wanted, is_meant)
  local job = nearest.job(vim.api.nvim_get_current_buf(), is_meant)
  if not job then
    say.warn('no rewrite to ' .. wanted .. ' in this buffer')
  end
  return job
end

--- Whether there is something of it to accept, reject or stop.
---@param job stet.Job
---@return boolean
local function is_live(job)
  return job.request ~= nil or jobs.is_proposed(job)
end

--- Apply all that is left of the rewrite.
function M.accept()
  local job = job_here('accept', is_live)
  if job and job.request then
    say.warn('still being written')
  elseif job then
    rewrite.accept(job, jobs.open_hunks(job))
  end
end

--- Drop the rewrite, or stop it; with a bang all versions of it.
---@param args? vim.api.keyset.create_user_command.command_args
function M.reject(args)
  local job = job_here('reject', is_live)
  if job then
    for _, each in ipairs(args and args.bang and job.group.jobs or { job }) do
      rewrite.drop(each)
    end
  end
end

--- Stop the rewrite that is running.
function M.cancel()
  local job = job_here('cancel', function(job)
    return job.request ~= nil
  end)
  if job then
    rewrite.drop(job)
    say.info('cancelled')
  end
end

return M
