"""package_wheel.py TREE VERSION ARCH FOLDER: a wheel of the files in TREE, which become those of the environment that pip
installs into: TREE/bin are its scripts. Called by scripts/package."""

import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def needed_glibc(files):
    """The newest glibc version that any of the ELF files asks for, as (2, minor)."""
    newest = (2, 17)  # below this manylinux has other names
    for file in files:
        if file.read_bytes()[:4] != b"\x7fELF":
            continue
        symbols = subprocess.run(["readelf", "--version-info", "--wide", file], capture_output=True, text=True,
                                 check=True).stdout
        versions = re.findall(r"\bGLIBC_(\d+)\.(\d+)", symbols)
        newest = max([newest, *((int(major), int(minor)) for major, minor in versions)])
    return newest


def metadata(version):
    return (f"Metadata-Version: 2.1\nName: poolcuda\nVersion: {version}\n"
            "Summary: Pools the cudaMalloc and cudaFree of unmodified CUDA programs\n"
            "License: MIT\nLicense-File: LICENSE\n"
            "Classifier: License :: OSI Approved :: MIT License\n"
            "Classifier: Operating System :: POSIX :: Linux\n"
            "Classifier: Environment :: GPU :: NVIDIA CUDA\n"
            "Keywords: CUDA,GPU,memory,allocator,LD_PRELOAD\n"
            "Description-Content-Type: text/markdown\n\n" + (ROOT / "README.md").read_text())


class Wheel:
    """A zip file with the record of what is in it."""

    def __init__(self, path, when):
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self.when = time.gmtime(when)[:6]
        self.record = []

    def add(self, name, data, mode=0o644):
        info = zipfile.ZipInfo(name, self.when)
        info.external_attr = (0o100000 | mode) << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        self.zip.writestr(info, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(data)}")

    def close(self, information):
        name = f"{information}/RECORD"
        info = zipfile.ZipInfo(name, self.when)
        info.external_attr = 0o100644 << 16
        self.zip.writestr(info, "\n".join([*self.record, f"{name},,", ""]))
        self.zip.close()


def main():
    tree, version, arch, folder = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3], pathlib.Path(sys.argv[4])
    files = sorted(path for path in tree.rglob("*") if path.is_file() and not path.is_symlink())
    major, minor = needed_glibc(files)
    tag = f"py3-none-manylinux_{major}_{minor}_{arch}"
    wheel_file = folder / f"poolcuda-{version}-{tag}.whl"
    wheel = Wheel(wheel_file, int(os.environ["SOURCE_DATE_EPOCH"]))
    for path in files:
        place = path.relative_to(tree)
        where = f"scripts/{place.name}" if place.parts[0] == "bin" else f"data/{place}"
        wheel.add(f"poolcuda-{version}.data/{where}", path.read_bytes(), 0o755 if os.access(path, os.X_OK) else 0o644)
    information = f"poolcuda-{version}.dist-info"
    wheel.add(f"{information}/LICENSE", (ROOT / "LICENSE").read_bytes())
    wheel.add(f"{information}/METADATA", metadata(version).encode())
    wheel.add(f"{information}/WHEEL", (f"Wheel-Version: 1.0\nGenerator: poolcuda {version}\n"
                                       f"Root-Is-Purelib: false\nTag: {tag}\n").encode())
    wheel.close(information)
    print(wheel_file)


if __name__ == "__main__":
    main()
