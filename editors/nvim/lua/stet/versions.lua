--- More than one answer to one question: another try, a refinement, and going from one to the next.
local ask = require('stet.ask')
local jobs = require('stet.jobs')
local nearest = require('stet.nearest')
local rewrite = require('stet.rewrite')
local say = require('stet.say')
local screen = require('stet.screen')

local M = {}

---@return stet.Job?
local function proposal_here()
  return nearest.job(vim.api.nvim_get_current_buf(), jobs.is_proposed)
end

--- Say that there is nothing to do it with.
---@param wanted string
local function say_none(wanted)
  local is_written = nearest.job(vim.api.nvim_get_current_buf(), function(job)
    return job.request ~= nil
  end)
  say.warn(is_written and 'still being written' or 'no ' .. wanted .. ' in this buffer')
end

--- Once more: another version of the proposal, or in firmer words what changed nothing.
function M.again()
  local buf = vim.api.nvim_get_current_buf()
  local last, job = rewrite.unchanged[buf], proposal_here()
  local is_same_text = last and last.target.params.textDocument.version == vim.lsp.util.buf_versions[buf]
  local row = vim.api.nvim_win_get_cursor(0)[1] - 1
  local is_at_cursor = job and job.first <= row and row < job.stop
  if job and (is_at_cursor or not is_same_text) then
    rewrite.vary(job, { alternativeTo = job.id })
  elseif last and is_same_text then
    rewrite.start(last.target, last.task, true)
  elseif last then
    say.warn('the buffer has changed since: use :Stet')
  else
    say_none('rewrite to try again')
  end
end

--- What the proposal is to do as well: another version, which starts from it.
---@param args? vim.api.keyset.create_user_command.command_args
function M.refine(args)
  local job = proposal_here()
  if not job then
    say_none('proposal to refine')
    return
  end
  local function refine(task)
    if jobs.is_alive(job) then
      rewrite.vary(job, vim.tbl_extend('error', { refines = job.id }, task))
    else
      say.warn('the proposal is gone')
    end
  end
  if args and args.args ~= '' then
    ask.task_of(job.target, args.args, refine)
  else
    ask.instruction('Stet, now also: ', refine)
  end
end

--- Show the next version.
function M.next()
  local job = nearest.job(vim.api.nvim_get_current_buf(), function(job)
    return #job.group.jobs > 1
  end)
  if not job then
    say.warn('no other version here (:StetAgain asks for one)')
    return
  end
  local versions = job.group.jobs
  for n, each in ipairs(versions) do
    if each == job then
      screen.show(versions[n % #versions + 1])
      return
    end
  end
end

return M
