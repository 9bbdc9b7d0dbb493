"""debian_changelog.py MAINTAINER: CHANGELOG.md on stdin as a Debian changelog on stdout. What is unreleased is left out."""

import datetime
import re
import sys
import textwrap


def entries(text):
    """(version, date, [item]) of each version. An item may go on over indented lines."""
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        heading, _, body = part.partition("\n")
        if heading.strip() == "[Unreleased]":
            continue
        found = re.fullmatch(r"\[(\d[\w.~+]*)\] - (\d{4}-\d\d-\d\d)", heading.strip())
        if not found:
            sys.exit(f"CHANGELOG.md: ## {heading}: expected ## [VERSION] - YYYY-MM-DD")
        items, group = [], ""
        for title, item in re.findall(r"^(?:### (.*)|- (.*(?:\n  .*)*))$", body, re.M):
            group = title or group
            if item:
                items.append(("" if group == "Added" else f"{group}: ") + " ".join(item.split()))
        yield found.group(1), datetime.date.fromisoformat(found.group(2)), items


def main():
    maintainer = sys.argv[1]
    versions = list(entries(sys.stdin.read()))
    for place, (version, date, items) in enumerate(versions):
        # A version is younger than the one before, also if they are of one day.
        hour = sum(older_date == date for _, older_date, _ in versions[place + 1:])
        print(f"poolcuda ({version}) unstable; urgency=medium\n")
        for item in items:
            print(textwrap.fill(item, 78, initial_indent="  * ", subsequent_indent="    "))
        print(f"\n -- {maintainer}  {date:%a, %d %b %Y} {hour:02}:00:00 +0000\n")


if __name__ == "__main__":
    main()
