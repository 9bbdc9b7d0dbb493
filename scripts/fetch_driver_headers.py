"""fetch_driver_headers.py [VERSION...]: the headers that declare the driver's functions, of these CUDA versions (as
11.8), or of all that the table of entry points is held against. Only they are kept of pip's packages, in
build/driver-headers/VERSION; what is there already is not fetched again. Prints these folders."""

import io
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build/driver-headers"
# The last that each CUDA version has: there is none of 12.7.
PACKAGES = {
    "11.7": "nvidia-cuda-runtime-cu11==11.7.99", "11.8": "nvidia-cuda-runtime-cu11==11.8.89",
    "12.0": "nvidia-cuda-runtime-cu12==12.0.146", "12.1": "nvidia-cuda-runtime-cu12==12.1.105",
    "12.2": "nvidia-cuda-runtime-cu12==12.2.140", "12.3": "nvidia-cuda-runtime-cu12==12.3.101",
    "12.4": "nvidia-cuda-runtime-cu12==12.4.127", "12.5": "nvidia-cuda-runtime-cu12==12.5.82",
    "12.6": "nvidia-cuda-runtime-cu12==12.6.77", "12.8": "nvidia-cuda-runtime-cu12==12.8.90",
    "12.9": "nvidia-cuda-runtime-cu12==12.9.79", "13.0": "nvidia-cuda-runtime==13.0.96",
    "13.1": "nvidia-cuda-runtime==13.1.80", "13.2": "nvidia-cuda-runtime==13.2.75",
    "13.3": "nvidia-cuda-runtime==13.3.29", "13.4": "nvidia-cuda-runtime==13.4.92",
    "13.5": "nvidia-cuda-runtime==13.5.37",
}
HEADERS = re.compile(r"(.*/)?(cuda|cuda(GL|EGL|VDPAU|Profiler)|cuda(GL|EGL|VDPAU|Profiler)?Typedefs)\.h")


def download(package, folder):
    """The wheel of that package as bytes, by pip."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
         "--only-binary=:all:", "--retries", "1", "--timeout", "20", "--dest", folder, package],
        capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"fetch_driver_headers.py: pip could not download {package}: "
                 f"{(done.stderr.strip().splitlines() or ['no reason given'])[-1]}")
    return next(pathlib.Path(folder).glob("*.whl")).read_bytes()


def fetch(version):
    """The folder with the headers of that version, which is complete if it is there."""
    target = FOLDER / version
    if target.is_dir():
        return target
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as scratch, \
            zipfile.ZipFile(io.BytesIO(download(PACKAGES[version], scratch))) as wheel:
        made = pathlib.Path(scratch) / "headers"
        made.mkdir()
        for name in filter(HEADERS.fullmatch, wheel.namelist()):
            (made / name.rsplit("/", 1)[-1]).write_bytes(wheel.read(name))
        try:
            made.rename(target)
        except OSError:  # another process was faster
            shutil.rmtree(made)
    return target


def main():
    versions = sys.argv[1:] or PACKAGES
    unknown = [version for version in versions if version not in PACKAGES]
    if unknown:
        sys.exit(f"fetch_driver_headers.py: {unknown[0]}: expected one of {', '.join(PACKAGES)}")
    for version in versions:
        print(fetch(version))


if __name__ == "__main__":
    main()
