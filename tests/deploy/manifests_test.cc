// What deploy/ promises: that clusters would take its files, that hone-verifier takes the arguments that they pass, and
// that dashboards and alarms ask for metrics that exist.

#include <yaml-cpp/yaml.h>

#include <catch2/catch_test_macros.hpp>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/subprocess.h"
#include "nlohmann/json.hpp"
#include "tests/support/memory_folder.h"
#include "tests/support/test_programs.h"
#include "verifier/cache/result_cache.h"
#include "verifier/queue/sqlite_queue.h"
#include "verifier/service/metrics.h"

namespace hone {
namespace {

std::string Deploy(const std::string& name) { return std::string(HONE_SOURCE_DIR) + "/deploy/" + name; }

RunResult RunProgram(const std::vector<std::string>& argv, std::vector<std::string> environment = {}) {
  SpawnOptions spawn;
  spawn.argv = argv;
  spawn.environment = std::move(environment);
  const absl::StatusOr<RunResult> result = Run(spawn, absl::Seconds(60));
  if (absl::IsNotFound(result.status())) SKIP(argv[0] << " is not installed");
  REQUIRE(result.ok());
  return *result;
}

/// hone-verifier reads these arguments without complaint.
void CheckArguments(std::vector<std::string> arguments) {
  const std::string program = TestProgram("hone-verifier");
  if (program.empty()) SKIP("HONE_TEST_BIN names no folder with hone-verifier");
  arguments.insert(arguments.begin(), program);
  arguments.push_back("--print-config");
  const RunResult result = RunProgram(arguments);
  INFO(result.output);
  CHECK(result.exit_code == 0);
}

std::vector<std::string> Strings(const YAML::Node& list) {
  std::vector<std::string> strings;
  for (const YAML::Node& item : list) strings.push_back(item.as<std::string>());
  return strings;
}

bool Holds(const YAML::Node& labels, const YAML::Node& wanted) {
  for (const auto& pair : wanted) {
    const YAML::Node found = labels[pair.first.as<std::string>()];
    if (!found || found.as<std::string>() != pair.second.as<std::string>()) return false;
  }
  return wanted.size() > 0;
}

void CheckContainer(const YAML::Node& container, const std::set<std::string>& volumes) {
  CHECK(container["name"]);
  CHECK(container["image"]);
  std::set<std::string> ports;
  for (const YAML::Node& port : container["ports"]) {
    CHECK(port["containerPort"].as<int>() > 0);
    ports.insert(port["name"].as<std::string>());
  }
  for (const char* probe : {"readinessProbe", "livenessProbe"}) {
    if (container[probe] && container[probe]["tcpSocket"]) CHECK(ports.count(container[probe]["tcpSocket"]["port"].as<std::string>()) == 1);
  }
  for (const YAML::Node& mount : container["volumeMounts"]) CHECK(volumes.count(mount["name"].as<std::string>()) == 1);
  for (const YAML::Node& variable : container["env"]) CHECK(variable["name"]);
  CHECK(container["resources"]["requests"]);
  if (absl::StartsWith(container["image"].as<std::string>(), "hone-")) CheckArguments(Strings(container["args"]));
}

void CheckWorkload(const YAML::Node& object) {
  const YAML::Node spec = object["spec"], pod = spec["template"];
  CHECK(Holds(pod["metadata"]["labels"], spec["selector"]["matchLabels"]));
  CHECK(spec["replicas"].as<int>() >= 1);
  std::set<std::string> volumes;
  for (const YAML::Node& volume : pod["spec"]["volumes"]) volumes.insert(volume["name"].as<std::string>());
  for (const YAML::Node& claim : spec["volumeClaimTemplates"]) volumes.insert(claim["metadata"]["name"].as<std::string>());
  REQUIRE(pod["spec"]["containers"].size() >= 1);
  for (const YAML::Node& container : pod["spec"]["containers"]) CheckContainer(container, volumes);
}

TEST_CASE("Kubernetes' objects are whole, select what they make, and pass arguments that the verifier takes", "[deploy]") {
  const std::vector<YAML::Node> objects = YAML::LoadAllFromFile(Deploy("kubernetes/farm.yaml"));
  std::set<std::string> names, selectable;
  for (const YAML::Node& object : objects) {
    const std::string kind = object["kind"].as<std::string>(), name = object["metadata"]["name"].as<std::string>();
    INFO(kind << " " << name);
    CHECK(object["apiVersion"]);
    CHECK(names.insert(kind + "/" + name).second);
    if (kind == "Deployment" || kind == "StatefulSet") {
      CheckWorkload(object);
      selectable.insert(object["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"].as<std::string>());
    }
  }
  for (const YAML::Node& object : objects) {
    if (object["kind"].as<std::string>() != "Service") continue;
    CHECK(selectable.count(object["spec"]["selector"]["app.kubernetes.io/component"].as<std::string>()) == 1);
  }
  INFO("a lane pod has one GPU");
  for (const YAML::Node& object : objects) {
    if (object["metadata"]["name"].as<std::string>() != "hone-lane") continue;
    const YAML::Node resources = object["spec"]["template"]["spec"]["containers"][0]["resources"];
    CHECK(resources["limits"]["nvidia.com/gpu"].as<int>() == 1);
  }
  for (const YAML::Node& object : YAML::LoadAllFromFile(Deploy("kubernetes/keda.yaml"))) {
    if (object["kind"].as<std::string>() != "ScaledObject") continue;
    CHECK(names.count("Deployment/" + object["spec"]["scaleTargetRef"]["name"].as<std::string>()) == 1);
    for (const YAML::Node& trigger : object["spec"]["triggers"]) {
      const YAML::Node metadata = trigger["metadata"];
      CHECK(std::regex_match(metadata["stream"].as<std::string>(), std::regex(R"(\{hone\}:q:(lane|build|describe)/cuda:[012])")));
      CHECK(metadata["consumerGroup"].as<std::string>() == "workers");
    }
  }
}

TEST_CASE("Compose's services name each other rightly and pass arguments that the verifier takes", "[deploy]") {
  const YAML::Node compose = YAML::LoadFile(Deploy("compose/compose.yaml"));
  const YAML::Node services = compose["services"];
  REQUIRE(services.size() > 4);
  for (const auto& pair : services) {
    const std::string name = pair.first.as<std::string>();
    INFO(name);
    const YAML::Node service = pair.second, base = service["<<"];
    CHECK((service["image"] || (base && base["image"])));
    const YAML::Node needs = base ? base["depends_on"] : service["depends_on"];
    for (const auto& need : needs) CHECK(services[need.first.as<std::string>()]["healthcheck"]);
    if (base) CheckArguments(Strings(service["command"]));
    for (const YAML::Node& volume : service["volumes"]) {
      const std::string source = volume.as<std::string>().substr(0, volume.as<std::string>().find(':'));
      CHECK((absl::StartsWith(source, "..") ? FileExists(Deploy("compose/" + source)) : compose["volumes"][source].IsDefined()));
    }
  }
}

TEST_CASE("The Slurm script parses and says in a dry run what it would start", "[deploy]") {
  const std::string script = Deploy("slurm/farm.sbatch");
  const RunResult parsed = RunProgram({"bash", "-n", script});
  INFO(parsed.output);
  CHECK(parsed.exit_code == 0);
  const TempFolder folder = MemoryFolder("slurm");
  const RunResult dry = RunProgram({"bash", script}, {"DRY_RUN=1", "STATE=" + folder.path() + "/state", "HONE_REDIS_PASSWORD=x",
                                                      "SLURM_JOB_NODELIST=node[1-4]"});
  INFO(dry.output);
  CHECK(dry.exit_code == 0);
  CHECK(absl::StrContains(dry.output, "node[1-4]"));
  CHECK(absl::StrContains(dry.output, ":6379/0"));
  CHECK_FALSE(absl::StrContains(dry.output, "HONE_REDIS_PASSWORD"));
}

TEST_CASE("The Slurm script for training says in a dry run which node learns and what the others run", "[deploy]") {
  const std::string script = Deploy("slurm/train.sbatch");
  const std::vector<std::string> environment = {"DRY_RUN=1", "SLURM_JOB_NUM_NODES=3", "SLURM_GPUS_ON_NODE=4", "SLURM_JOB_ID=77",
                                                "SLURM_JOB_NODELIST=n1,n2,n3"};
  const RunResult dry = RunProgram({"bash", script, "train.yaml", "split", "--set", "seed=2"}, environment);
  INFO(dry.output);
  CHECK(dry.exit_code == 0);
  CHECK(absl::StrContains(dry.output, "--nodes=1 --relative=0 --ntasks=4"));
  CHECK(absl::StrContains(dry.output, "hone train train.yaml --runs runs --name split --set workers.listen=0.0.0.0:40077 "
                                      "--set workers.count=8 --set seed=2"));
  CHECK(absl::StrContains(dry.output, "--nodes=2 --relative=1 --ntasks-per-node=4"));
  CHECK(absl::StrContains(dry.output, "hone worker --coordinator"));
  CHECK(absl::StrContains(dry.output, "n1:40077"));
  std::vector<std::string> alone = environment;
  alone[1] = "SLURM_JOB_NUM_NODES=1";
  CHECK(RunProgram({"bash", script, "train.yaml", "split"}, alone).exit_code == 2);
}

TEST_CASE("The systemd unit has its sections, starts the verifier and does not restart on a user's mistake", "[deploy]") {
  const std::string unit = ReadFile(Deploy("systemd/hone-verifier.service")).value();
  std::set<std::string> keys;
  std::string section;
  const std::regex line(R"(^(?:\[(\w+)\]|(\w+)=(.*)|#.*|)$)");
  size_t begin = 0;
  for (size_t end = unit.find('\n'); end != std::string::npos; begin = end + 1, end = unit.find('\n', begin)) {
    std::smatch match;
    const std::string text = unit.substr(begin, end - begin);
    INFO(text);
    REQUIRE(std::regex_match(text, match, line));
    if (match[1].matched) section = match[1];
    if (match[2].matched) keys.insert(absl::StrCat(section, ".", match[2].str(), "=", match[3].str()));
  }
  CHECK(keys.count("Service.ExecStart=/opt/hone/bin/hone-verifier --config /etc/hone/verifier.yaml") == 1);
  CHECK(keys.count("Service.RestartPreventExitStatus=2") == 1);
  CHECK(keys.count("Service.KillSignal=SIGTERM") == 1);
  CHECK(keys.count("Install.WantedBy=multi-user.target") == 1);
}

/// The metrics that a verifier has at all, counters and histograms with a sample each.
std::set<std::string> MetricNames() {
  const TempFolder folder = MemoryFolder("metrics");
  const auto queue = *verifier::OpenSqliteQueue({folder.path() + "/queue.db", "test"});
  const auto cache = *verifier::ResultCache::Open({folder.path() + "/results.db", "test"});
  verifier::Metrics metrics(*queue, *cache);
  metrics.CountVerdict({});
  metrics.CountFailure("lane");
  metrics.SetLane("cpu:0", verifier::LaneState::kIdle);
  metrics.CountLaneStart("cpu:0");
  const std::string text = metrics.Text();
  std::set<std::string> names;
  const std::regex sample(R"((?:^|\n)(hone_\w+)[{ ])");
  for (std::sregex_iterator it(text.begin(), text.end(), sample), end; it != end; ++it) names.insert((*it)[1]);
  names.insert("hone_queue_jobs");  // has samples only while there are jobs
  return names;
}

void CheckExpression(const std::string& expression, const std::set<std::string>& known) {
  INFO(expression);
  const std::regex name(R"(\bhone_\w+)");
  int found = 0;
  for (std::sregex_iterator it(expression.begin(), expression.end(), name), end; it != end; ++it, ++found) {
    INFO(it->str());
    CHECK(known.count(it->str()) == 1);
  }
  CHECK(found > 0);
  CHECK(std::count(expression.begin(), expression.end(), '(') == std::count(expression.begin(), expression.end(), ')'));
}

TEST_CASE("Every alarm and every panel asks for metrics that the verifier has", "[deploy]") {
  const std::set<std::string> known = MetricNames();
  const YAML::Node rules = YAML::LoadFile(Deploy("prometheus/rules.yaml"));
  int count = 0;
  for (const YAML::Node& group : rules["groups"]) {
    for (const YAML::Node& rule : group["rules"]) {
      CHECK((rule["alert"] || rule["record"]));
      CheckExpression(rule["expr"].as<std::string>(), known);
      ++count;
    }
  }
  CHECK(count >= 5);
  const nlohmann::json dashboard = nlohmann::json::parse(ReadFile(Deploy("grafana/hone.json")).value());
  std::set<int> ids;
  for (const auto& panel : dashboard["panels"]) {
    CHECK(ids.insert(panel["id"].get<int>()).second);
    for (const auto& target : panel["targets"]) CheckExpression(target["expr"].get<std::string>(), known);
  }
  CHECK(ids.size() >= 8);
  CHECK(YAML::LoadFile(Deploy("prometheus/prometheus.yaml"))["scrape_configs"].size() == 1);
}

TEST_CASE("Container files build from folders that exist and end in an entry point", "[deploy]") {
  for (const char* name : {"container/Dockerfile.verifier", "container/Dockerfile.lane"}) {
    const std::string text = ReadFile(Deploy(name)).value();
    INFO(name);
    CHECK(absl::StrContains(text, "\nENTRYPOINT [\"hone-verifier\""));
    const std::regex copy(R"(\nCOPY (deploy/\S+) )");
    for (std::sregex_iterator it(text.begin(), text.end(), copy), end; it != end; ++it) {
      CHECK(FileExists(std::string(HONE_SOURCE_DIR) + "/" + (*it)[1].str()));
    }
  }
}

}  // namespace
}  // namespace hone
