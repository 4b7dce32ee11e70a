"""Sentences of movie reviews, positive or negative, as tokens of BERT's uncased vocabulary.

Source: the snippets that C. J. Hutto and E. Gilbert rated, "VADER: A Parsimonious Rule-based Model
for Sentiment Analysis of Social Media Text", ICWSM 2014, as the source distribution of
vaderSentiment ships them. A label is the sign of the mean of twenty ratings; zeros are dropped.
"""

from __future__ import annotations

import io
import tarfile

import torch

from mase_hw.data._archive import member
from mase_hw.data._base import Dataset, Split
from mase_hw.data.fetch import fetch_package
from mase_hw.data.packaged import PACKAGED_MODELS, packaged_folder

SHA256 = "5dce530a78315563f8b3cd01033bbdd3bf4985fabf359ca68d4167728081c803"
ARCHIVE = "additional_resources/hutto_ICWSM_2014.tar.gz"
TABLE = "hutto_ICWSM_2014/movieReviewSnippets_GroundTruth.txt"
TOKENIZER = "bert-tiny"
# Tokens of a sample, the rest is cut: three quarters of the sentences have no more than 34.
LENGTH = 32
TEST_SAMPLES = 2000


class Snippets(Dataset):
    """Token ids, padded with 0; 2,000 samples, drawn once, are held out. 0 negative, 1 positive."""

    name = "snippets"
    classes = 2

    def load(self) -> Split:
        """Return int64 ids `[samples, LENGTH]`: about 8,560 to train on and 2,000 to test on."""
        sentences = _sentences()
        ids = _tokens(list(sentences))
        labels = torch.tensor([int(score > 0) for score in sentences.values()])
        order = torch.randperm(len(ids), generator=torch.Generator().manual_seed(0))
        test, train = order[:TEST_SAMPLES], order[TEST_SAMPLES:]
        return Split(ids[train], labels[train], ids[test], labels[test])


def _sentences() -> dict[str, float]:
    """Return the mean rating of every sentence, each once."""
    package = fetch_package("pypi", "vaderSentiment", "3.2.1", SHA256, source=True)
    with tarfile.open(fileobj=io.BytesIO(member(package, ARCHIVE))) as archive:
        handle = archive.extractfile(TABLE)
        assert handle is not None
        rows = [line.split("\t") for line in handle.read().decode().splitlines()]
    return {text: float(score) for _, score, text in rows if float(score) != 0.0}


def _tokens(sentences: list[str]) -> torch.Tensor:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(
        str(packaged_folder(PACKAGED_MODELS[TOKENIZER]) / "tokenizer.json")
    )
    tokenizer.enable_truncation(LENGTH)
    tokenizer.enable_padding(length=LENGTH)
    return torch.tensor([item.ids for item in tokenizer.encode_batch(sentences)])
