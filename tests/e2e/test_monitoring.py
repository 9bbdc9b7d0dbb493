"""share/monitoring: a real node_exporter and a real Prometheus, which `scripts/test --all` installs, see pooled programs by it.

Without them, or without systemd, those tests are skipped; what the units allow is tried by the rights that they name.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import guard
import pytest
from conftest import BUILD, COMMAND, ROOT
from steered import NEEDS_MOUNT, Program, command
from test_live import NEEDS_NOBODY, NOBODY, parse_exposition

MIB = 1 << 20
MONITORING = ROOT / "share/monitoring"
MADE = BUILD / "share/monitoring"  # where the units have the path of the command
RULES = MONITORING / "poolcuda.rules.yml"
SERVICES = ["poolcuda-metrics.service", "poolcuda-metrics@.service"]
DASHBOARD = json.loads((MONITORING / "grafana-dashboard.json").read_text())
NEEDS_PROMETHEUS = pytest.mark.skipif(not (shutil.which("prometheus") and shutil.which("prometheus-node-exporter")),
                                      reason="scripts/test --all installs Debian's prometheus and prometheus-node-exporter")
NEEDS_SYSTEMD = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="package systemd")


def settings(service):
    """{name: [value, ...]} of a unit's [Service]."""
    found, section = {}, None
    for line in (MADE / service).read_text().splitlines():
        if line.startswith("["):
            section = line
        elif section == "[Service]" and "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


# --- units ---

@NEEDS_SYSTEMD
@pytest.mark.parametrize("service, exposure", zip(SERVICES, (1.5, 1.0)))
def test_systemd_takes_the_units_and_finds_them_shut_in(service, exposure, tmp_path):
    for name in SERVICES:
        text = (MADE / name).read_text()
        (tmp_path / name).write_text(re.sub(r"(?<=^ExecStart=)\S+", str(COMMAND), text, flags=re.M))
    for timer in MONITORING.glob("*.timer"):
        shutil.copy(timer, tmp_path)
    instance = service.replace("@", "@root")
    units = [tmp_path / instance, tmp_path / instance.replace(".service", ".timer")]
    done = guard.run(["systemd-analyze", "verify", "--man=no", *map(str, units)], capture_output=True, text=True, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if "poolcuda" in line]) == (0, []), done.stderr
    told = guard.run(["systemd-analyze", "security", "--offline=yes", str(tmp_path / service)], capture_output=True, text=True, check=True)
    assert float(re.search(r"Overall exposure level.*: ([\d.]+) ", told.stdout)[1]) <= exposure, told.stdout


@pytest.mark.parametrize("service", SERVICES)
def test_the_units_may_look_at_pages_and_keep_what_lets_them(service):
    """With an IPC namespace or a /dev of its own, or without /proc's other processes, it would see nothing; RemoveIPC would end the
    user's pages."""
    found = settings(service)
    assert found["ProtectSystem"] == ["strict"] and found["NoNewPrivileges"] == ["yes"] and found["ReadOnlyPaths"] == ["/dev/shm"]
    assert not {"PrivateIPC", "RemoveIPC", "DynamicUser", "ProtectProc", "PrivateUsers"} & set(found)
    assert found["ExecStart"][0].split()[1] == "top" and pathlib.Path(found["ExecStart"][0].split()[0]).name == "poolcuda"


@NEEDS_MOUNT
@NEEDS_NOBODY
def test_the_rights_of_roots_unit_suffice_for_all_users_programs(tmp_path):
    found = settings("poolcuda-metrics.service")
    kept = ",".join("+" + right.removeprefix("CAP_").lower() for right in found["CapabilityBoundingSet"][0].split())
    words = [word.replace("/var/lib/prometheus/node-exporter", str(tmp_path)) for word in found["ExecStart"][0].split()[1:]]
    shut_in = ["unshare", "--mount", "sh", "-c", 'mount -o remount,bind,ro /dev/shm && exec setpriv --no-new-privs --bounding-set="-all,$0" "$@"', kept]
    with Program() as own, Program(prefix=NOBODY, SLURM_JOB_ID="7") as other, Program(prefix=NOBODY, POOLCUDA_STATS_FILE="/dev/null") as dead:
        own.do(f"alloc 0 {MIB}")
        other.do(f"alloc 0 {2 * MIB}")
        dead.say("kill")
        dead.process.wait()
        done = command(*words, prefix=shut_in)
        assert (done.returncode, done.stderr) == (0, "")
        figures = parse_exposition((tmp_path / "poolcuda.prom").read_text())["poolcuda_device_in_use_bytes"][1]
        seen = {(dict(labels)["user"], dict(labels)["pid"]): value for labels, value in figures.items()}
        assert seen[("root", str(own.pid))] == MIB and seen[("nobody", str(other.pid))] == 2 * MIB
        assert ("nobody", str(dead.pid)) not in seen
    assert (tmp_path / "poolcuda.prom").stat().st_mode & 0o444 == 0o444


@NEEDS_MOUNT
@NEEDS_NOBODY
def test_the_unit_of_a_user_needs_no_rights(tmp_path):
    assert settings("poolcuda-metrics@.service")["CapabilityBoundingSet"] == [""]
    words = settings("poolcuda-metrics@.service")["ExecStart"][0].replace("/run/poolcuda-metrics/%i", str(tmp_path)).split()[1:]
    os.chown(tmp_path, 65534, 65534)
    shut_in = ["unshare", "--mount", "sh", "-c", 'mount -o remount,bind,ro /dev/shm && exec "$@"', "sh", *NOBODY, "--no-new-privs"]
    for parent in tmp_path.parents[:3]:
        parent.chmod(parent.stat().st_mode | 0o011)
    with Program(prefix=NOBODY) as program, Program():
        program.do(f"alloc 0 {MIB}")
        done = command(*words, prefix=shut_in)
        assert (done.returncode, done.stderr) == (0, "")
        figures = parse_exposition((tmp_path / "poolcuda.prom").read_text())
        assert [dict(labels)["pid"] for labels in figures["poolcuda_held_bytes"][1]] == [str(program.pid)]


# --- rules, dashboard ---

@pytest.mark.skipif(not shutil.which("promtool"), reason="scripts/test --all installs Debian's prometheus")
def test_the_rules_alert_of_what_they_should_and_of_nothing_else(tmp_path):
    shutil.copy(RULES, tmp_path)
    shutil.copy(ROOT / "tests/data/monitoring.test.yml", tmp_path)
    for words in (["check", "rules", RULES.name], ["test", "rules", "monitoring.test.yml"]):
        done = guard.run(["promtool", *words], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(not shutil.which("promtool"), reason="scripts/test --all installs Debian's prometheus")
def test_every_query_about_shortages_counts_those_before_the_first_scrape(tmp_path):
    told = re.findall(r"^\| shortages of .* \| `(.*)` \|$", (ROOT / "docs/monitoring.md").read_text(), re.M)
    asked = [query.replace("$user", ".*").replace("$job_id", ".*") for _, query in queries() if "oom_events" in query]
    assert len(told) == 1 and len(asked) == 2
    labels = 'user="u", job_id="1", pid="1"'
    series = [{"series": f"poolcuda_oom_events_total{{{labels}}}", "values": "_x4 7x20"},
              {"series": f"poolcuda_start_time_seconds{{{labels}}}", "values": "_x4 290x20"}]
    tests = [{"expr": f"sum({query})", "eval_time": "8m", "exp_samples": [{"labels": "{}", "value": 7}]} for query in told + asked]
    (tmp_path / "test.yml").write_text(json.dumps({"tests": [{"interval": "1m", "input_series": series, "promql_expr_test": tests}]}))
    done = guard.run(["promtool", "test", "rules", "test.yml"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def queries():
    return [(panel["title"], target["expr"]) for panel in DASHBOARD["panels"] for target in panel["targets"]]


def test_dashboard_and_rules_ask_for_figures_that_there_are():
    with Program():
        names = set(parse_exposition(command("top", "--prometheus=-").stdout))
    asked = {name for text in [RULES.read_text(), *(query for _, query in queries())] for name in re.findall(r"\bpoolcuda_\w+", text)}
    assert len(asked) >= 10 and asked <= names
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids) >= 10
    cells = [(x, y) for panel in DASHBOARD["panels"] for g in [panel["gridPos"]]
             for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"])]
    assert len(set(cells)) == len(cells) and max(x for x, _ in cells) < 24, "panels do not lie over each other"


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Server:
    """Prometheus, which asks a node_exporter, which reads a folder of files."""

    def __init__(self, folder, files):
        self.port, exporter = free_port(), free_port()
        self.started = []
        (folder / "prometheus.yml").write_text(
            f"global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: ['{RULES}']\n"
            f"scrape_configs:\n- job_name: node\n  static_configs: [{{targets: ['127.0.0.1:{exporter}']}}]\n")
        self.start(folder / "exporter.log", "prometheus-node-exporter", "--collector.disable-defaults", "--collector.textfile",
                   f"--collector.textfile.directory={files}", f"--web.listen-address=127.0.0.1:{exporter}")
        self.start(folder / "prometheus.log", "prometheus", f"--config.file={folder / 'prometheus.yml'}",
                   f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address=127.0.0.1:{self.port}")

    def start(self, log, *words):
        with open(log, "wb") as out:
            self.started.append((subprocess.Popen(words, stdout=out, stderr=out), log))  # pylint: disable=consider-using-with

    def answer(self, query):
        """The result: [(labels, value)]; None while it is not there yet."""
        for process, log in self.started:
            assert process.poll() is None, log.read_text()
        address = f"http://127.0.0.1:{self.port}/api/v1/query?" + urllib.parse.urlencode({"query": query})
        try:
            with urllib.request.urlopen(address, timeout=guard.LIMIT) as got:
                told = json.load(got)
        except urllib.error.HTTPError as error:
            if error.code == 503:
                return None
            assert False, f"{query}: {error.read().decode()}"
        except urllib.error.URLError:
            return None
        assert told["status"] == "success", told
        return [(row["metric"], float(row["value"][1])) for row in told["data"]["result"]]

    def until(self, query, good, meanwhile=lambda: None):
        """The first answer that is good, in a while in which the programs go on."""
        end = time.monotonic() + guard.LIMIT
        while True:
            answer = self.answer(query)
            if answer is not None and good(answer):
                return answer
            assert time.monotonic() < end, f"{query}: {answer}"
            meanwhile()
            time.sleep(0.2)

    def end(self):
        for process, _ in self.started:
            process.terminate()
            process.wait()


@NEEDS_PROMETHEUS
def test_prometheus_answers_for_jobs_and_gpus(tmp_path):
    files = tmp_path / "files"  # in which are figures of other tests' programs as well
    files.mkdir()
    with contextlib.ExitStack() as stack:
        one = stack.enter_context(Program(SLURM_JOB_ID="4201", SLURM_PROCID="0", POOLCUDA_MAX_IDLE="100%", POOLCUDA_IDLE_DECAY="0"))
        other = stack.enter_context(Program(SLURM_JOB_ID="4301", SLURM_PROCID="0", SIMCUDA_MEMORY="256M"))
        one.do(f"alloc 0 {30 * MIB}")
        one.do("free 0")
        writing = stack.enter_context(subprocess.Popen([COMMAND, "top", f"--prometheus={files / 'poolcuda.prom'}", "--interval=0.5"]))
        stack.callback(writing.terminate)
        server = Server(tmp_path, files)
        stack.callback(server.end)

        def work():
            one.do("churn")
            other.do("churn")
            assert other.do(f"alloc 1 {1 << 40}") != 0, "more than the GPU has"

        by_job = "sum by (job_id) (rate(poolcuda_malloc_hits_total[30s])) / sum by (job_id) (rate(poolcuda_malloc_calls_total[30s]))"
        rates = server.until(by_job, lambda rows: {"4201", "4301"} <= {labels["job_id"] for labels, value in rows if value > 0}, work)
        assert all(0 < value <= 1 for labels, value in rates if labels["job_id"] in ("4201", "4301")), rates
        # What is asked is as old as the last scrape: the program rests meanwhile.
        idle = [device["idle_bytes"] for device in one.figures()["devices"]]
        server.until('sum by (uuid) (poolcuda_device_idle_bytes{job_id="4201"})', lambda rows: [value for _, value in rows] == idle)
        assert len(idle) == 1 and idle[0] >= 30 * MIB
        short = server.until("sum by (job_id) (increase(poolcuda_oom_events_total[1m])) > 0", bool, work)
        assert [labels["job_id"] for labels, _ in short] == ["4301"]
        server.until('ALERTS{alertname="PoolcudaShortage", job_id="4301", alertstate="firing"}', bool, work)
        assert server.answer('ALERTS{alertname="PoolcudaShortage", job_id="4201"}') == []
        # The name of the target is Prometheus' own, whatever job a program is of.
        assert {labels["job"] for labels, _ in server.answer("poolcuda_held_bytes")} == {"node"}
        for title, query in queries():
            for name, value in (("$user", ".*"), ("$job_id", ".*"), ("$__rate_interval", "30s")):
                query = query.replace(name, value)
            assert "$" not in query and server.until(query, bool, work), title
        errors = server.answer("node_textfile_scrape_error")
        assert [value for _, value in errors] == [0]
