"""Complex numbers as pairs of real ones, and Fourier transforms as products with matrices."""

import pytest
import torch
from torch import fft, nn

import mase_hw
from mase_hw.emit.preflight import preflight
from mase_hw.ops import Apply
from tests.modules import Layers

TURNS = torch.polar(torch.ones(5, 4), torch.linspace(-3, 3, 20).reshape(5, 4))
FILTER = torch.complex(torch.linspace(-1, 1, 12), torch.linspace(2, -1, 12)).reshape(4, 3, 1)
WINDOW = torch.hann_window(6)


def pairs(x):
    return torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))


CASES = {
    "rotary": lambda x: torch.view_as_real(pairs(x) * TURNS).flatten(-2),
    "mixed tokens": lambda x: fft.fft(fft.fft(x, dim=-1), dim=-2).real,
    "two dimensions": lambda x: fft.fft2(x).imag + fft.ifft2(x).real,
    "filter": lambda x: fft.irfft2(
        fft.rfft2(x[:, :4].reshape(-1, 4, 4, 2), dim=(1, 2), norm="ortho") * FILTER,
        dim=(1, 2),
        norm="ortho",
    ),
    "low modes": lambda x: fft.irfft(fft.rfft(x)[..., :3] * FILTER[0, :, 0], n=8),
    "other lengths": lambda x: torch.cat(
        [fft.irfft(fft.rfft(x, n=9)), fft.irfft(fft.rfft(x), n=5), fft.fft(x, n=4).real], -1
    ),
    "named dimensions": lambda x: fft.ifftn(fft.fftn(x, dim=(1, 2), norm="forward"), dim=(1,)).imag,
    "sizes": lambda x: fft.rfft(x).abs() + fft.rfft(x).abs().square(),
    "angle": lambda x: torch.angle(fft.fft(x)[..., 1:4]),
    "shifted": lambda x: fft.fftshift(x, dim=(1, 2)) + fft.ifftshift(fft.fft(x), dim=-1).imag,
    "quotient": lambda x: (torch.complex(x, x + 1) / torch.complex(x.abs() + 1, x)).real,
    "by numbers": lambda x: ((torch.complex(x, -x).conj() - 2) * (1 + 2j) / (2 - 1j)).imag,
    "exponential": lambda x: torch.view_as_real(torch.exp(1j * x) + torch.polar(x.abs(), x)),
    "known parts": lambda x: torch.view_as_real(1j * x).flatten(-2) + (2j * x).real.repeat(1, 1, 2),
    "joined": lambda x: torch.cat([1j * x, fft.fft(x), 2 * pairs(x)], -1).imag,
    "einsum": lambda x: torch.einsum("btd,td->bt", fft.fft(x)[..., :4], TURNS).real,
    "envelope": lambda x: fft.ifft(fft.fft(x) * torch.tensor([1.0, 2, 2, 2, 1, 0, 0, 0])).abs(),
    "spectrogram": lambda x: torch.stft(
        x.flatten(1), 6, 4, window=WINDOW, return_complex=True, normalized=True
    ).abs(),
    "two sides": lambda x: torch.view_as_real(
        torch.stft(x.flatten(1), 8, 3, 6, WINDOW, False, onesided=False, return_complex=True)
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_real_parts_compute_what_torch_does(name):
    torch.manual_seed(0)
    model = Apply(CASES[name])
    mg = mase_hw.trace(model, torch.randn(6, 5, 8))
    assert mg.batched
    x = torch.randn(7, 5, 8)
    torch.testing.assert_close(mg(x), model(x), rtol=1e-4, atol=1e-4)
    assert preflight(mase_hw.quantize(mg)) == []


@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
@pytest.mark.parametrize("length", [4, 5, 7, 8])
def test_transforms_of_every_length_and_norm_are_those_of_torch(norm, length):
    def function(x):
        found = fft.fft(torch.complex(x, x.flip(-1)), norm=norm)
        back = fft.irfft(found, n=length, norm=norm)
        return torch.cat([torch.view_as_real(fft.ifft(found, norm=norm)).flatten(-2), back], -1)

    x = torch.randn(3, 6)
    mg = mase_hw.trace(Apply(function), x)
    torch.testing.assert_close(mg(x), function(x), rtol=1e-4, atol=1e-5)


def test_a_complex_weight_is_trained_by_its_parts():
    weight = nn.Parameter(torch.randn(3, dtype=torch.complex64))
    model = Layers(lambda m, x: fft.irfft(fft.rfft(x) * m.weight), weight=weight)
    mg = mase_hw.trace(model, torch.randn(6, 4))
    weights = dict(mg.named_parameters())
    assert set(weights) == {"weight_real", "weight_imag"}
    mg(torch.randn(6, 4)).square().sum().backward()
    assert all(item.grad is not None for item in weights.values())


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.tanh(torch.complex(x, x)).real,
        lambda x: fft.fft(x),
        lambda x: fft.fft(x).sum(),
    ],
)
def test_what_is_not_known_has_no_hardware(function):
    mg = mase_hw.trace(Apply(function), torch.randn(6, 4), batched=False)
    assert preflight(mase_hw.quantize(mg))


def test_a_transform_over_the_batch_takes_the_whole_batch():
    x = torch.randn(6, 4)
    mg = mase_hw.trace(Apply(lambda x: fft.fft(x, dim=0).real), x)
    assert not mg.batched
    torch.testing.assert_close(mg(x), fft.fft(x, dim=0).real)


@pytest.mark.full
@pytest.mark.parametrize("name", ["rotary", "mixed tokens", "spectrogram"])
def test_the_hardware_is_exact(name, tmp_path):
    torch.manual_seed(0)
    mg = mase_hw.quantize(mase_hw.trace(Apply(CASES[name]), torch.randn(6, 5, 8)))
    project = mase_hw.emit_verilog(mg, output=tmp_path / "net", parallelism=2)
    report = mase_hw.simulate(project, torch.randn(4, 5, 8), stall=0.3)
    assert report.bit_exact
