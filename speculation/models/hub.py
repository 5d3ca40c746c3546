"""The Hugging Face hub as far as Stet needs it: is a file there, which files has a model, download them.

Honours HF_ENDPOINT, HF_HUB_OFFLINE and the user's login. Asks for safetensors and text files only: no pickle, no code.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path

from huggingface_hub import HfApi, constants, get_hf_file_metadata, hf_hub_download, hf_hub_url
from huggingface_hub.errors import GatedRepoError, OfflineModeIsEnabled, RepositoryNotFoundError
from huggingface_hub.utils import disable_progress_bars

from speculation.errors import FetchError, ModelError, first_line

PROBE_S = 4.0
log = logging.getLogger(__name__)

ENDPOINT: str = constants.ENDPOINT
WANTED = ("*.safetensors", "*.json", "merges.txt", "vocab.txt", "*.jinja", "tokenizer.model")


def has_file(repo: str, file: str) -> bool:
    """Whether the hub answers, soon, that it has this file."""
    if constants.is_offline_mode():
        return False
    try:
        get_hf_file_metadata(hf_hub_url(repo, file), timeout=PROBE_S)
    except Exception as error:
        # The hub's client has changed its HTTP library twice, and hands its exceptions through as they are.
        log.debug("no %s on the hub: %s", file, error)
        return False
    return True


def snapshot_files(model_id: str) -> tuple[str, dict[str, int]]:
    """The model's current revision, and the size of each file that loading needs. Raises ModelError, FetchError."""
    with _clear_errors(model_id):
        info = HfApi().model_info(model_id, files_metadata=True, timeout=PROBE_S)
    sizes = {file.rfilename: file.size or 0 for file in info.siblings or []}
    wanted = {name: size for name, size in sizes.items() if "/" not in name and any(fnmatch(name, p) for p in WANTED)}
    # Some repositories carry the weights twice; transformers reads the ones called model*.
    named_model = {name for name in wanted if fnmatch(name, "model*.safetensors")}
    if named_model:
        wanted = {n: s for n, s in wanted.items() if n in named_model or not n.endswith(".safetensors")}
    if not any(name.endswith(".safetensors") for name in wanted):
        raise ModelError(f"{model_id} has no safetensors weights on the hub, and Stet loads no other kind from there")
    return info.sha or "main", wanted


def download(repo: str, file: str, into: Path, revision: str = "main") -> Path:
    """Download one file; what is there already is kept, and a half-done file goes on. Raises FetchError, ModelError."""
    # Stet draws one bar for the whole fetch.
    disable_progress_bars()
    with _clear_errors(repo):
        return Path(hf_hub_download(repo, file, revision=revision, local_dir=into))


@contextmanager
def _clear_errors(repo: str) -> Iterator[None]:
    try:
        yield
    except GatedRepoError:
        raise FetchError(
            f"{repo} asks for a login: accept its terms on {ENDPOINT}/{repo}, then: hf auth login"
        ) from None
    except RepositoryNotFoundError:
        raise ModelError(f"no model {repo} on {ENDPOINT}") from None
    except OfflineModeIsEnabled:
        raise FetchError(f"{repo} is not fetched, and HF_HUB_OFFLINE forbids to fetch it") from None
    except Exception as error:
        # The hub's client has changed its HTTP library twice, and hands its exceptions through as they are.
        reason = first_line(error)
        raise FetchError(f"{repo} could not be fetched from {ENDPOINT}: {reason}; fetch again to resume") from None
