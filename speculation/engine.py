"""The engine as a library: open it with a config, ask it to generate, pull chunks. One request at a time.

Wires tokenizer, target, drafts and what is known of them. Knows no HTTP and no editor.
"""

import logging
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import groupby
from operator import itemgetter

from speculation.acceptance import Store, public_name
from speculation.config import PRESETS, EngineConfig
from speculation.decoding import Drafts, decode
from speculation.drafters.chain import DraftChain, NoDrafts
from speculation.drafters.copiers import copiers
from speculation.drafters.lm import SmallLMFailed, pays_to_read
from speculation.errors import ConfigError, ContextTooLong, ModelError, is_out_of_memory
from speculation.gamma import CostCurve
from speculation.models.cached_lm import CachedLM
from speculation.models.fit import auto_preset
from speculation.models.forms import choose_device
from speculation.models.loading import context_length, load_model, load_small_lm, machine_name, resolve
from speculation.models.memory import held_gpu_bytes
from speculation.models.seq2seq import following
from speculation.models.small_lm import TorchSmallLM
from speculation.models.static import StaticLM
from speculation.models.tokenizer import Origins, StopTexts, TextStream, Tokenizer
from speculation.models.verify import TorchTarget
from speculation.types import Chunk, EngineInfo, FinishReason, Sampling, SourceStats, Stats, Step

logger = logging.getLogger(__name__)

Messages = Sequence[Mapping[str, str]]


class Engine:
    """A target, its small LM, and what is known of both. Not thread-safe: one thread opens, uses and closes it."""

    def __init__(self, config: EngineConfig) -> None:
        choose_device(_small_device(config))  # a wrong one is said before the target is loaded
        target_ref, small_ref = _models_of(config)
        folder = resolve(target_ref, config.models_dir)
        self._config = config
        self._tokenizer = Tokenizer(folder)
        self.target = following(load_model(folder, config.device, config.dtype), config.kv_budget_bytes, config.passes)
        self.small = self._open_small(small_ref) if small_ref else None
        self.info = EngineInfo(
            model=target_ref,
            small_lm=small_ref,
            device=str(self.target.device),
            dtype=self.target.dtype,
            context_len=context_length(self.target.model),
        )
        self._stop_ids = self.target.stop_ids
        self._store = Store(config.database)
        self._cost = CostCurve(self._pass_times(target_ref, self.target), self.target.buckets)
        self._small_cost = None
        if small_ref and self.small:
            self._small_cost = CostCurve(self._pass_times(small_ref, self.small), self.small.buckets)
        for lm in (self.target, self.small):
            if isinstance(lm, StaticLM) and lm.captures:
                lm.warm_up()
        self.info = replace(self.info, gpu_bytes=held_gpu_bytes())

    @classmethod
    def open(cls, config: EngineConfig) -> "Engine":
        """Load the weights (seconds). Raises ModelError, ConfigError."""
        return cls(config)

    @property
    def trouble(self) -> str | None:
        """One line for the user when the database had to be set aside."""
        return self._store.trouble

    def pretend(self, cost: CostCurve, c: float) -> None:
        """Draft as if a target pass took cost.seconds(q), and one of the small LM c times that: for benchmarks.

        Only with a config without a database, which would take these prices for measured ones.
        """
        self._cost, self._small_cost = cost.scaled(1), cost.scaled(c)

    def close(self) -> None:
        """Let go of caches and the database."""
        self._store.save_pass_times(self._machine(self.info.model, self.target), self._cost.points)
        self.target.forget()
        if self.small and self._small_cost and self.info.small_lm:
            self._store.save_pass_times(self._machine(self.info.small_lm, self.small), self._small_cost.points)
            self.small.forget()
        self._store.close()

    def generate(
        self,
        messages: Messages | None = None,
        *,
        prompt: str | None = None,
        source: str = "",
        file_type: str = "",
        draft: bool = True,
        small_lm: bool = True,
        temperature: float = 0.0,
        top_p: float = 1.0,
        top_k: int = 0,
        seed: int | None = None,
        repetition_penalty: float = 1.0,
        max_new_tokens: int | None = None,
        stop: Sequence[str] = (),
    ) -> Iterator[Chunk]:
        """The target's answer to messages (a chat) or prompt (plain text), in chunks; close the iterator to cancel.

        source is text that is likely to reappear in the answer, in the form in which the answer writes it. It changes
        the time, never the output; so do draft (False: plain decoding) and small_lm (False: copies only). The last
        chunk carries finish_reason and stats. Raises ConfigError and ContextTooLong at the call, before any work.
        """
        sampling = Sampling(temperature, top_p, top_k, seed, repetition_penalty)
        prompt_ids = self._encode_prompt(messages, prompt)
        source_ids = self._tokenizer.encode(source)
        n_room = self._room(len(prompt_ids), len(source_ids))
        if max_new_tokens is not None and max_new_tokens < 1:
            raise ConfigError(f"max_new_tokens must be at least 1, not {max_new_tokens}")
        n_max = min(n_room, max_new_tokens or n_room)
        small = self._small_lm(sampling, prompt_ids) if draft and small_lm else None
        if small and not pays_to_read(small, self.target.begin(prompt_ids), len(source_ids), self._cost.seconds):
            small = None
        return self._generate(prompt_ids, source_ids, file_type, draft, small, sampling, n_max, stop)

    def prefill(
        self, messages: Messages | None = None, *, prompt: str | None = None, small_lm: bool = True
    ) -> Iterator[Chunk]:
        """Put the prompt into the KV cache and write nothing, so that a request which begins like it starts at once."""
        prompt_ids = self._encode_prompt(messages, prompt)
        self._room(len(prompt_ids), 0)
        small = self._small_lm(Sampling(), prompt_ids) if small_lm else None
        # Where it never pays to have it read, it never does.
        return self._prefill(prompt_ids, small if small and 2 * small.pass_s(1) < self._cost.seconds(1) else None)

    def encode(self, messages: Messages) -> list[int]:
        """The chat prompt that generate feeds."""
        return self._encode_prompt(messages, None)

    def encode_text(self, text: str) -> list[int]:
        """Token ids of plain text."""
        return self._tokenizer.encode(text)

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of token ids, without control tokens."""
        return self._tokenizer.decode(token_ids)

    def _prefill(self, prompt_ids: list[int], small: TorchSmallLM | None) -> Iterator[Chunk]:
        with self._freeing_memory():
            stats, _ = yield from self._read(prompt_ids, small)
        yield Chunk(n_prefilled=len(prompt_ids), finish_reason="stop", stats=stats)

    def _read(
        self, prompt_ids: list[int], small: TorchSmallLM | None
    ) -> Generator[Chunk, None, tuple[Stats, CachedLM]]:
        """Put the prompt, all but its last token, into the KV caches; gives whom to ask about answers to it."""
        started = time.perf_counter()
        n_cached = None
        lm, prefix = self.target.reading(prompt_ids), self.target.begin(prompt_ids)
        for n_held in lm.prefill(prefix[:-1]):
            n_cached = n_held if n_cached is None else n_cached
            yield Chunk(n_prefilled=n_held)
        with suppress(SmallLMFailed):
            for _ in small.prefill(prefix) if small else ():
                yield Chunk(n_prefilled=len(prompt_ids))
        prefill_s = time.perf_counter() - started
        return Stats(n_prompt=len(prompt_ids), n_cached=n_cached or 0, prefill_s=prefill_s), lm

    @contextmanager
    def _freeing_memory(self) -> Iterator[None]:
        """When memory runs out, the caches go: the next request must find room."""
        try:
            yield
        except Exception as error:
            if is_out_of_memory(error):
                self.target.forget()
                if self.small:
                    self.small.forget()
            raise

    def _small_lm(self, sampling: Sampling, prompt_ids: list[int]) -> TorchSmallLM | None:
        if self.small is None or self._small_cost is None:
            return None
        return TorchSmallLM(self.small.reading(prompt_ids), sampling, self._small_cost, self.target.n_vocab)

    def _generate(
        self,
        prompt_ids: list[int],
        source_ids: list[int],
        file_type: str,
        draft: bool,
        small: TorchSmallLM | None,
        sampling: Sampling,
        n_max: int,
        stop: Sequence[str],
    ) -> Iterator[Chunk]:
        # What is sampled or penalised agrees less often with a copy than first choices do: those counts are kept apart.
        name = public_name(self.info.model)
        is_plain = sampling.temperature == 0 and sampling.repetition_penalty == 1
        key = name if is_plain else f"{name} sampled"
        acceptance = self._store.acceptance(key, file_type)
        drafts: Drafts = NoDrafts()
        if draft:
            copying = copiers(source_ids, prompt_ids, self._tokenizer)
            # A draft that is longer than the longest bucket would need a shape of its own.
            gamma_max = min([self._config.gamma_max, *(n - 1 for n in self.target.buckets[-1:])])
            drafts = DraftChain(copying, acceptance, self._cost.seconds, gamma_max, small)
        try:
            with self._freeing_memory():
                stats, lm = yield from self._read(prompt_ids, small)
                prefix = lm.begin(prompt_ids)
                steps = decode(TorchTarget(lm, sampling), drafts, prefix, max_new_tokens=n_max, stop_ids=self._stop_ids)
                for chunk in self._chunks(steps, stats, n_max, stop):
                    if small and chunk.stats:
                        chunk = replace(chunk, stats=replace(chunk.stats, n_small_passes=small.n_passes))
                    yield chunk
                    if draft and chunk.stats:
                        plain_s = chunk.stats.n_tokens * self._cost.seconds(1)
                        self._store.note_run(key, file_type, chunk.stats, plain_s)
        finally:
            self._store.save_acceptance(key, acceptance)

    def _chunks(self, steps: Iterator[Step], stats: Stats, n_max: int, stop: Sequence[str]) -> Iterator[Chunk]:
        """Steps as text, and what they cost."""
        text_stream, stops, origins = TextStream(self._tokenizer), StopTexts(stop), Origins()
        started = time.perf_counter()
        for step in steps:
            self._cost.observe(len(step.draft.token_ids) + 1, step.target_s)
            stats = _counted(stats, step)
            text, is_copied = "", _is_copied(step)
            for copied, run in groupby(zip(is_copied, step.token_ids, strict=True), key=itemgetter(0)):
                piece = text_stream.push([token for _, token in run])
                origins.add(len(piece), copied)
                text += piece
            text = stops.push(text)
            finish_reason: FinishReason | None = None
            is_ended = step.token_ids[-1] in self._stop_ids
            if is_ended or stats.n_tokens >= n_max or stops.is_stopped:
                if not stops.is_stopped:
                    piece = text_stream.flush()
                    origins.add(len(piece), is_copied[-1])
                    text += stops.push(piece) + stops.flush()
                finish_reason = "stop" if is_ended or stops.is_stopped else "length"
                stats = replace(stats, decode_s=time.perf_counter() - started)
            yield Chunk(
                text=text,
                token_ids=step.token_ids,
                n_copied=_n_copied(step),
                copied=origins.take(len(text)),
                finish_reason=finish_reason,
                stats=stats if finish_reason else None,
            )
            if finish_reason is not None:
                return

    def _encode_prompt(self, messages: Messages | None, prompt: str | None) -> list[int]:
        if (messages is None) == (prompt is None):
            raise ConfigError("Give either messages or prompt, not both or neither")
        if self.target.has_encoder and messages:
            # Such models know no chat: the encoder reads the texts one after another.
            prompt = "\n\n".join(message["content"] for message in messages)
        if prompt is None:
            token_ids = self._tokenizer.encode_chat(messages or ())
        else:
            token_ids = [*self._tokenizer.encode(prompt), *self.target.prompt_end] if prompt else []
        if not token_ids:
            raise ConfigError("The prompt must not be empty")
        return token_ids

    def _room(self, n_prompt: int, n_source: int) -> int:
        """Tokens that the answer may have. Raises ContextTooLong when the source could not be written out again."""
        n_context = self.info.context_len
        n_room = n_context - n_prompt
        if n_room < max(1, n_source):
            raise ContextTooLong(
                f"Too long for {self.info.model}: the prompt takes {n_prompt} tokens and the answer about {n_source}, "
                f"its context is {n_context}. Select fewer lines or use a model with a longer context."
            )
        return n_room

    def _open_small(self, ref: str) -> CachedLM:
        config = self._config
        folder = resolve(ref, config.models_dir)
        model = load_small_lm(folder, _small_device(config), config.dtype)
        small = following(model, config.small_kv_budget_bytes, config.passes)
        other = "vocabulary" if Tokenizer(folder).vocabulary != self._tokenizer.vocabulary else "architecture"
        if other == "vocabulary" or small.has_encoder != self.target.has_encoder:
            raise ModelError(
                f"{ref} can't draft for this target: its {other} is another one. "
                "Choose a small LM of the same family, or --small-lm none."
            )
        return small

    def _pass_times(self, model: str, lm: CachedLM) -> Mapping[int, float]:
        """T(q), measured once per device, model and dtype."""
        machine = self._machine(model, lm)
        seconds: Mapping[int, float] = self._store.pass_times(machine)
        if 1 not in seconds:
            seconds = lm.pass_seconds()
            self._store.save_pass_times(machine, seconds)
            logger.info("measured pass times of %s: %s", machine, seconds)
        return seconds

    def _machine(self, model: str, lm: CachedLM) -> str:
        passes = "" if self._config.passes == "dynamic" else f" {self._config.passes}"
        return f"{machine_name(lm.device)} {public_name(model)} {lm.dtype}{passes}"


def _models_of(config: EngineConfig) -> tuple[str, str | None]:
    """The target's and the small LM's references that a config stands for."""
    name = config.model
    if name == "auto":
        name = auto_preset(choose_device(config.device), config.dtype, config.models_dir)
    preset = PRESETS.get(name)
    small = config.small_lm
    if small == "auto":
        small = (preset.small_lm or "none") if preset else "none"
    elif small in PRESETS:
        small = PRESETS[small].target
    return (preset.target if preset else name), (None if small == "none" else small)


def _small_device(config: EngineConfig) -> str:
    return config.device if config.small_device == "auto" else config.small_device


def _is_copied(step: Step) -> list[bool]:
    """Of each token that came out: whether it was copied, rather than written by the target or the small LM.

    A token that one of them wrote just as the copy before it goes on brings nothing new: it counts as copied.
    """
    flags: list[bool] = []
    goes_on = None
    for part, n_accepted, _ in step.draft.judged(step.n_accepted, len(step.token_ids)):
        flags += [part.source != "lm" or token == goes_on for token in part.token_ids[:n_accepted]]
        if n_accepted:
            goes_on = part.goes_on if n_accepted == len(part.token_ids) else None
    return flags + [token == goes_on for token in step.token_ids[len(flags) :]]


def _n_copied(step: Step) -> int:
    judged = step.draft.judged(step.n_accepted, len(step.token_ids))
    return sum(n_accepted for part, n_accepted, _ in judged if part.source != "lm")


def _counted(stats: Stats, step: Step) -> Stats:
    sources = dict(stats.sources)
    for part in step.draft.parts or (step.draft,):
        if part.token_ids:
            old = sources.get(part.source, SourceStats())
            n_drafted = old.n_drafted + len(part.token_ids)
            sources[part.source] = replace(old, n_drafts=old.n_drafts + 1, n_drafted=n_drafted)
    for part, n_accepted, n_tested in step.draft.judged(step.n_accepted, len(step.token_ids)):
        old = sources[part.source]
        sources[part.source] = replace(old, n_tested=old.n_tested + n_tested, n_accepted=old.n_accepted + n_accepted)
    return replace(
        stats,
        n_tokens=stats.n_tokens + len(step.token_ids),
        n_passes=stats.n_passes + 1,
        n_copied=stats.n_copied + _n_copied(step),
        target_s=stats.target_s + step.target_s,
        draft_s=stats.draft_s + step.draft_s,
        sources=sources,
    )
