"""Makes the page of `poolcuda report --html` a text in C: embed.py TEMPLATE STYLE SCRIPT... OUTPUT.

The style and the scripts take the places of "/* style */" and "/* script */" in the template, and what the
command writes that of "<!-- data -->": html_page_head and html_page_tail stand before and behind it.
"""

import sys


def literal(text):
    rows = []
    data = text.encode()
    for at in range(0, len(data), 24):
        rows.append("    " + ", ".join(str(byte) for byte in data[at:at + 24]) + ",")
    return "\n".join(rows)


def main():
    template, style, *scripts, output = sys.argv[1:]
    texts = []
    for path in (template, style, *scripts):
        with open(path, encoding="utf-8") as file:
            texts.append(file.read())
    page = texts[0]
    for mark, text in (("/* style */", texts[1]), ("/* script */", "\n".join(texts[2:]))):
        assert page.count(mark) == 1 and "</" + "script" not in text, mark
        page = page.replace(mark, text)
    head, tail = page.split("<!-- data -->")
    with open(output, "w", encoding="utf-8") as file:
        file.write('#include "cli/views/html_page.h"\n')
        for name, text in (("head", head), ("tail", tail)):
            file.write(f"const unsigned char html_page_{name}[] = {{\n{literal(text)}\n}};\n"
                       f"const size_t html_page_{name}_size = sizeof html_page_{name};\n")


main()
