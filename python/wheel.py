"""Builds a wheel of a folder of packages, without network, the same bytes every time.

    wheel.py FOLDER VERSION OUT
"""

import base64
import hashlib
import os
import pathlib
import sys
import time
import zipfile

folder, version, out = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
stamp = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), 315532800))[:6]
info = f"elastalloc-{version}.dist-info"
metadata = f"""\
Metadata-Version: 2.1
Name: elastalloc
Version: {version}
Summary: A client of elastalloc, which decides how many nodes each elastic training job gets
License: Apache-2.0
Requires-Python: >=3.9
Requires-Dist: grpcio>=1.51
Requires-Dist: protobuf>=4.21
"""
tags = """\
Wheel-Version: 1.0
Generator: elastalloc
Root-Is-Purelib: true
Tag: py3-none-any
"""

files = {
    str(path.relative_to(folder)): path.read_bytes()
    for path in sorted(folder.rglob("*"))
    if path.is_file() and "__pycache__" not in path.parts
}
files[f"{info}/METADATA"] = metadata.encode()
files[f"{info}/WHEEL"] = tags.encode()
record = ""
for name, content in files.items():
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
    record += f"{name},sha256={digest.decode()},{len(content)}\n"
files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()

out.mkdir(parents=True, exist_ok=True)
wheel = out / f"elastalloc-{version}-py3-none-any.whl"
with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
    for name, content in files.items():
        entry = zipfile.ZipInfo(name, stamp)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = 0o644 << 16
        archive.writestr(entry, content)
print(wheel)
