#include "verifier/service/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/service_type.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/address.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "verifier/build/builder_set.h"
#include "verifier/build/cpu_builder.h"
#include "verifier/build/cuda_builder.h"
#include "verifier/build/musa_builder.h"
#include "verifier/build/torch_builder.h"
#include "verifier/cache/artefact_store.h"
#include "verifier/device/cuda/driver.h"
#include "verifier/device/device.h"
#include "verifier/lane/affinity.h"
#include "verifier/queue/redis_queue.h"
#include "verifier/queue/roster.h"
#include "verifier/queue/sqlite_queue.h"
#include "verifier/service/access.h"
#include "verifier/service/engine.h"
#include "verifier/service/grpc_service.h"
#include "verifier/service/http_gateway.h"
#include "verifier/service/lane_process.h"
#include "verifier/service/metrics.h"
#include "verifier/service/noop_lane.h"

namespace hone::verifier {
namespace {

// A candidate of 10 MB must get its verdict, not an RPC error.
constexpr int kMaxMessageBytes = 64 << 20;
// Messages that are on their way in or out, over all connections. Beyond it gRPC lets clients wait.
constexpr size_t kTransportBytes = size_t{1} << 30;

/// gRPC replaces a Unix socket that is there, also one that somebody serves.
absl::Status CheckUnixSocketFree(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("listen: unix:", path, ": longer than ", sizeof(address.sun_path) - 1,
                                                   " characters, the system's limit for socket paths"));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  const UniqueFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(probe.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("listen: unix:", path, " is in use"));
}

/// Every address before anything expensive has started.
absl::Status CheckAddresses(const ServerConfig& config) {
  for (const std::string& address : config.listen) {
    const bool is_unix = absl::StartsWith(address, "unix:");
    HONE_RETURN_IF_ERROR(is_unix ? CheckUnixSocketFree(address.substr(5)) : CheckAddressFree("listen", address, "unix:/path"));
  }
  if (!config.http.empty()) HONE_RETURN_IF_ERROR(CheckAddressFree("http", config.http));
  if (!config.metrics.empty()) HONE_RETURN_IF_ERROR(CheckAddressFree("metrics", config.metrics));
  return absl::OkStatus();
}

/// "host:0" with the port that was bound.
std::string BoundAddress(const std::string& address, int port) {
  const size_t colon = address.rfind(':');
  return absl::StartsWith(address, "unix:") ? address : absl::StrCat(address.substr(0, colon + 1), port);
}

MusaToolchain MusaToolchainOf(const ServerConfig& config) { return *ChooseMusaToolchain(config.musa_toolchain); }

/// The device table behind a kind of device.
std::string TableOf(const ServerConfig& config, const std::string& kind) {
  return kind == "musa" ? DeviceTableOf(MusaToolchainOf(config)) : kind;
}

/// The GPUs behind a kind of device; null: it runs on the host's cores.
const GpuDialect* GpusOf(const ServerConfig& config, const std::string& kind) {
  const DeviceTable* table = FindDeviceTable(TableOf(config, kind));
  return table != nullptr ? table->dialect : nullptr;
}

std::string HostName() {
  char name[256] = "";
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "host";
}

LaneSpec OneLane(const ServerConfig& config, const std::string& kind, int index, int cpu_core = -1,
                 std::vector<int> cores = {}) {
  LaneProcessOptions process;
  process.cores = std::move(cores);
  process.lane.device = kind == kNoopDevice ? kind : absl::StrCat(TableOf(config, kind), ":", index);
  process.lane.python = config.python;
  process.lane.sandbox = config.sandbox;
  process.lane.runners_ahead = config.runners_ahead;
  process.lane.task_memory_share = config.task_memory_share;
  process.lane.cpu_core = cpu_core;
  process.log_level = *ParseLogLevel(config.log_level);
  return {kind, absl::StrCat(kind, ":", index), [process] { return StartLaneProcess(process); }};
}

/// By kind of device.
using Gpus = std::map<std::string, std::vector<GpuListing>>;

/// How many GPUs have a lane here.
size_t GpuLanes(const ServerConfig& config, const Gpus& gpus) {
  size_t lanes = 0;
  for (const std::string& device : config.devices) {
    const bool one = absl::StrContains(device, ':');
    if (one) ++lanes;
    if (!one && GpusOf(config, device) != nullptr) lanes += gpus.at(device).size();
  }
  return lanes;
}

/// Those of the CPU share the cores; a GPU has one lane, which keeps to cores of its own.
std::vector<LaneSpec> LaneSpecs(const ServerConfig& config, const Gpus& gpus, const CoreShares& shares) {
  std::vector<LaneSpec> specs;
  const auto on_cores = [&](const std::string& device) { return GpusOf(config, device) == nullptr; };
  const auto kinds = static_cast<int>(std::count_if(config.devices.begin(), config.devices.end(), on_cores));
  const std::vector<int> cores = LaneCores(config.lanes * std::max(kinds, 1), AllowedCores(), sched_getcpu());
  size_t core = 0, gpu = 0;  // the next to give away
  for (const std::string& device : config.devices) {
    const std::vector<std::string> parts = absl::StrSplit(device, ':');
    if (parts.size() > 1) {
      specs.push_back(OneLane(config, parts[0], std::atoi(parts[1].c_str()), -1, shares.lanes[gpu++]));
      continue;
    }
    const bool on_gpus = !on_cores(device);
    const int lanes = on_gpus ? static_cast<int>(gpus.at(device).size()) : config.lanes;
    for (int i = 0; i < lanes; ++i) {
      specs.push_back(on_gpus ? OneLane(config, device, i, -1, shares.lanes[gpu++]) : OneLane(config, device, i, cores[core++]));
    }
  }
  return specs;
}

/// "cuda" of "cuda:1": what queue kinds name.
std::vector<std::string> DeviceKinds(const ServerConfig& config) {
  std::vector<std::string> kinds;
  for (const std::string& device : config.devices) kinds.push_back(device.substr(0, device.find(':')));
  return kinds;
}

bool Wants(const ServerConfig& config, const std::string& kind) {
  const std::vector<std::string> kinds = DeviceKinds(config);
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

/// The kinds of device that are GPUs.
std::vector<std::string> GpuKinds(const ServerConfig& config) {
  std::vector<std::string> kinds;
  for (const char* kind : {"cuda", "musa"}) {
    if (Wants(config, kind) && GpusOf(config, kind) != nullptr) kinds.push_back(kind);
  }
  return kinds;
}

const std::string& ArchitectureIn(const ServerConfig& config, const std::string& kind) {
  return TableOf(config, kind) == "musa" ? config.musa_architecture : config.cuda_architecture;
}

absl::StatusOr<Gpus> FindGpus(const ServerConfig& config) {
  Gpus gpus;
  if (config.role == "front") return gpus;
  for (const std::string& kind : GpuKinds(config)) {
    if (config.role == "build" && !ArchitectureIn(config, kind).empty()) continue;
    std::string error;
    if (!ListGpus(*GpusOf(config, kind), &gpus[kind], &error) || gpus[kind].empty()) {
      const bool names_of_musa = TableOf(config, kind) == "musa";
      return absl::FailedPreconditionError(
          absl::StrCat("devices: no ", kind, " device (", GpusOf(config, kind)->name, "): ",
                       error.empty() ? "none visible" : error,
                       names_of_musa ? "; without a Moore Threads GPU choose musa_toolchain compat/cuda or compat/cpu" : ""));
    }
  }
  return gpus;
}

/// What a kind's candidates are built for.
std::string ArchitectureOf(const ServerConfig& config, const Gpus& gpus, const std::string& kind) {
  const std::string& named = ArchitectureIn(config, kind);
  const auto found = gpus.find(kind);
  return !named.empty() || found == gpus.end() ? named : found->second.front().architecture;
}

CpuBuilderOptions GccOptions(const ServerConfig& config) {
  CpuBuilderOptions options;
  options.sandbox = config.sandbox;
  options.rescue_flags = config.rescue_flags;
  return options;
}

CudaBuilderOptions NvccOptions(const ServerConfig& config, const Gpus& gpus, const std::string& kind) {
  CudaBuilderOptions options;
  options.architecture = ArchitectureOf(config, gpus, kind);
  options.toolkit = config.cuda_toolkit;
  options.sandbox = config.sandbox;
  options.rescue_flags = config.rescue_flags;
  return options;
}

/// What Python candidates for MUSA are built with. On a Moore Threads GPU there is no runner for them yet (docs/musa.md), so
/// that none are built.
absl::Status AddMusaCompiler(const ServerConfig& config, const Gpus& gpus, TorchBuilderOptions& options) {
  const MusaToolchain toolchain = MusaToolchainOf(config);
  if (toolchain == MusaToolchain::kMcc) return absl::OkStatus();
  options.musa = DeviceTableOf(toolchain);
  if (toolchain == MusaToolchain::kCompatCpu) return absl::OkStatus();
  HONE_ASSIGN_OR_RETURN(options.musa_compiler, FindNvccForMusa(NvccOptions(config, gpus, "musa")));
  options.musa = options.musa_compiler->toolchain;
  return absl::OkStatus();
}

/// The interpreter that references run in. kFailedPrecondition: it has no torch; every job would find that out anew.
absl::StatusOr<PythonEnvironment> ReferencePython(const ServerConfig& config) {
  absl::StatusOr<PythonEnvironment> python = PythonEnvironment::Probe(config.python);
  if (!absl::IsNotFound(python.status())) return python;
  return absl::FailedPreconditionError(
      absl::StrCat("python: ", python.status().message(), "; references need an interpreter with torch, by `python` or $HONE_PYTHON"));
}

}  // namespace

// Destroyed from the last to the first: gRPC, then the engine, then what it uses.
struct Server::State {
  std::unique_ptr<Queue> queue;
  std::unique_ptr<Roster> roster;               // in a farm
  std::unique_ptr<SharedBytes> shared_artefacts;  // in a farm whose hosts share no folder
  std::unique_ptr<ResultCache> cache;
  std::unique_ptr<ArtefactStore> artefacts;
  std::unique_ptr<Builder> builder;
  std::unique_ptr<Screen> screen;
  std::unique_ptr<Metrics> metrics;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<AccessControl> access;        // where tokens are asked for
  std::unique_ptr<SharedBytes> http_results;    // in a farm
  std::unique_ptr<HttpGateway> http;
  std::unique_ptr<grpc::Service> service;
  std::unique_ptr<grpc::Server> server;
  std::vector<std::string> addresses;
  std::vector<std::string> formats = {"native"};
  const std::string host = HostName();
  const std::string node = absl::StrCat(host, "-", getpid(), "-", absl::Hex(absl::ToUnixMicros(absl::Now())));  // unique

  absl::Status OpenStores(const ServerConfig& config, const Logger& log);
  absl::Status JoinFarm(const ServerConfig& config, const Logger& log);
  void Announce(const ServerConfig& config);
  absl::Status MakeBuilder(const ServerConfig& config, const Gpus& gpus);
  absl::Status AddMusaBuilder(const ServerConfig& config, const Gpus& gpus, BuilderSet& set);
  absl::Status AddTorchBuilder(const ServerConfig& config, const Gpus& gpus, BuilderSet& set);
  absl::Status ServeHttp(const ServerConfig& config, const Logger& log);
  absl::Status Listen(const ServerConfig& config);
};

/// The stores that the processes of a farm share.
absl::Status Server::State::JoinFarm(const ServerConfig& config, const Logger& log) {
  RedisQueueOptions options;
  HONE_ASSIGN_OR_RETURN(options.address, ParseRedisUrl(config.queue));
  options.version = HONE_VERSION;
  options.limit_bytes = config.queue_limit_mb << 20;
  options.max_tries = config.max_tries;
  options.lost_after = absl::Seconds(config.lost_after_s);
  HONE_ASSIGN_OR_RETURN(queue, OpenRedisQueue(options, log));
  HONE_ASSIGN_OR_RETURN(roster, OpenRedisRoster(options.address));
  cache = ResultCache::Over(MakeRedisBytes(options.address, "verdicts", config.cache_limit_mb << 20));
  if (config.artefacts.empty()) {
    shared_artefacts = MakeRedisBytes(options.address, "artefacts", config.artefact_limit_mb << 20);
  }
  return absl::OkStatus();
}

void Server::State::Announce(const ServerConfig& config) {
  if (roster == nullptr) return;
  Member self;
  self.host = host;
  self.node = node;
  self.role = config.role;
  self.version = HONE_VERSION;
  self.devices = engine->Devices();
  if (config.role == "all" || config.role == "build") {
    self.toolchains = ToolchainsOf(*builder);
    self.formats = formats;
    self.build_slots = config.build_slots;
  }
  roster->Announce(self);
}

absl::Status Server::State::OpenStores(const ServerConfig& config, const Logger& log) {
  HONE_RETURN_IF_ERROR(MakeFolders(config.folder));
  if (!config.queue.empty()) return JoinFarm(config, log);
  SqliteQueueOptions queue_options;
  queue_options.path = config.folder + "/queue.db";
  queue_options.version = HONE_VERSION;
  queue_options.limit_bytes = config.queue_limit_mb << 20;
  queue_options.max_tries = config.max_tries;
  HONE_ASSIGN_OR_RETURN(queue, OpenSqliteQueue(queue_options));
  ResultCacheOptions cache_options;
  cache_options.path = config.folder + "/results.db";
  cache_options.version = HONE_VERSION;
  cache_options.limit_bytes = config.cache_limit_mb << 20;
  HONE_ASSIGN_OR_RETURN(cache, ResultCache::Open(cache_options));
  return absl::OkStatus();
}

absl::Status Server::State::MakeBuilder(const ServerConfig& config, const Gpus& gpus) {
  if (config.devices.front() == kNoopDevice || config.role == "front") {
    builder = MakeNoopBuilder();
    return absl::OkStatus();
  }
  ArtefactStoreOptions store_options;
  store_options.folder = config.artefacts.empty() ? config.folder + "/artefacts" : config.artefacts;
  store_options.limit_bytes = config.artefact_limit_mb << 20;
  store_options.shared = shared_artefacts.get();
  HONE_ASSIGN_OR_RETURN(artefacts, ArtefactStore::Create(store_options));
  if (config.role == "lane") {
    HONE_RETURN_IF_ERROR(ReferencePython(config).status());
    builder = MakeNoopBuilder();
    return absl::OkStatus();
  }
  auto set = std::make_unique<BuilderSet>();
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<Builder> for_cpu, CreateCpuBuilder(GccOptions(config), artefacts.get()));
  set->Add(Format::kNative, Backend::kCpu, std::move(for_cpu));
  if (Wants(config, "cuda")) {
    HONE_ASSIGN_OR_RETURN(std::unique_ptr<Builder> for_cuda,
                          CreateCudaBuilder(NvccOptions(config, gpus, "cuda"), artefacts.get()));
    set->Add(Format::kNative, Backend::kCuda, std::move(for_cuda));
  }
  if (Wants(config, "musa")) HONE_RETURN_IF_ERROR(AddMusaBuilder(config, gpus, *set));
  HONE_RETURN_IF_ERROR(AddTorchBuilder(config, gpus, *set));
  builder = std::move(set);
  return absl::OkStatus();
}

absl::Status Server::State::AddMusaBuilder(const ServerConfig& config, const Gpus& gpus, BuilderSet& set) {
  const auto make = [&]() -> absl::StatusOr<std::unique_ptr<Builder>> {
    switch (MusaToolchainOf(config)) {
      case MusaToolchain::kCompatCpu: return CreateMusaOnCpuBuilder(GccOptions(config), artefacts.get());
      case MusaToolchain::kCompatCuda:
        return CreateMusaOnCudaBuilder(NvccOptions(config, gpus, "musa"), artefacts.get());
      case MusaToolchain::kMcc: break;
    }
    return CreateMccBuilder({ArchitectureOf(config, gpus, "musa"), config.musa_toolkit, config.sandbox}, artefacts.get());
  };
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<Builder> built, make());
  set.Add(Format::kNative, Backend::kMusa, std::move(built));
  return absl::OkStatus();
}

/// Python candidates besides native ones.
absl::Status Server::State::AddTorchBuilder(const ServerConfig& config, const Gpus& gpus, BuilderSet& set) {
  TorchBuilderOptions options;
  absl::StatusOr<PythonEnvironment> python = ReferencePython(config);
  if (absl::IsFailedPrecondition(python.status()) && config.role == "build") return absl::OkStatus();  // native candidates need none
  HONE_RETURN_IF_ERROR(python.status());
  options.python = *std::move(python);
  for (const char* kind : {"musa", "cuda"}) {  // one of them: a host has GPUs of one vendor
    if (gpus.count(kind) != 0) options.architecture = ArchitectureOf(config, gpus, kind);
  }
  options.toolkit = config.cuda_toolkit;
  options.sandbox = config.sandbox;
  options.niceness = config.build_niceness;
  options.target_version = config.extension_python;
  if (!config.extension_headers.empty()) options.target_includes = {config.extension_headers};
  if (Wants(config, "musa")) HONE_RETURN_IF_ERROR(AddMusaCompiler(config, gpus, options));
  formats.push_back("torch");
  if (options.python.has_triton) formats.push_back("triton");
  for (const Format format : {Format::kTorch, Format::kTriton}) {
    for (const Backend backend : {Backend::kCpu, Backend::kCuda, Backend::kMusa}) {
      if (backend == Backend::kMusa && (options.musa.empty() || format == Format::kTriton)) continue;
      HONE_ASSIGN_OR_RETURN(std::unique_ptr<Builder> torch, CreateTorchBuilder(options, artefacts.get()));
      set.Add(format, backend, std::move(torch));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> Credentials(const ServerConfig& config) {
  if (config.tls_certificate.empty()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions tls(config.tls_client_ca.empty()
                                            ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                            : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  grpc::SslServerCredentialsOptions::PemKeyCertPair pair;
  HONE_ASSIGN_OR_RETURN(pair.private_key, ReadFile(config.tls_key, 1 << 20));
  HONE_ASSIGN_OR_RETURN(pair.cert_chain, ReadFile(config.tls_certificate, 1 << 20));
  tls.pem_key_cert_pairs.push_back(std::move(pair));
  if (!config.tls_client_ca.empty()) {
    HONE_ASSIGN_OR_RETURN(tls.pem_root_certs, ReadFile(config.tls_client_ca, 1 << 20));
  }
  return grpc::SslServerCredentials(tls);
}

absl::Status Server::State::ServeHttp(const ServerConfig& config, const Logger& log) {
  if (config.http.empty()) return absl::OkStatus();
  HttpGatewayOptions options;
  options.address = config.http;
  options.threads = config.http_threads;
  options.tls_certificate = config.tls_certificate;
  options.tls_key = config.tls_key;
  if (!config.queue.empty()) {
    HONE_ASSIGN_OR_RETURN(const RedisAddress address, ParseRedisUrl(config.queue));
    http_results = MakeRedisBytes(address, "http", int64_t{64} << 20);
  }
  HONE_ASSIGN_OR_RETURN(http, HttpGateway::Start(options, *engine, *queue, *metrics, access.get(), http_results.get(), log));
  return absl::OkStatus();
}

absl::Status Server::State::Listen(const ServerConfig& config) {
  if (config.listen.empty()) return absl::OkStatus();
  HONE_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::ServerCredentials> credentials, Credentials(config));
  grpc::ServerBuilder grpc_builder;
  grpc_builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // a second server on one port is an error
  grpc_builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  grpc_builder.SetResourceQuota(grpc::ResourceQuota("hone-verifier").Resize(kTransportBytes));
  std::vector<int> ports(config.listen.size(), 0);
  for (size_t i = 0; i < config.listen.size(); ++i) {
    const bool is_unix = absl::StartsWith(config.listen[i], "unix:");  // the file system guards those
    grpc_builder.AddListeningPort(config.listen[i], is_unix ? grpc::InsecureServerCredentials() : credentials, &ports[i]);
  }
  grpc_builder.RegisterService(service.get());
  server = grpc_builder.BuildAndStart();
  for (size_t i = 0; i < config.listen.size(); ++i) {
    if (server == nullptr && ports[i] == 0) {
      return absl::FailedPreconditionError(absl::StrCat("listen: ", config.listen[i], ": taken since it was checked"));
    }
    addresses.push_back(BoundAddress(config.listen[i], ports[i]));
  }
  if (server == nullptr) return absl::FailedPreconditionError("listen: gRPC does not start");
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerConfig& config, const Logger& log) {
  // Before a server is built; both are switches of the gRPC library.
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  HONE_RETURN_IF_ERROR(CheckAddresses(config));
  if (config.sandbox == "none") log.Warning("no sandbox: candidates and their compilers run with this user's rights");
  auto state = std::make_unique<State>();
  HONE_RETURN_IF_ERROR(state->OpenStores(config, log));
  HONE_ASSIGN_OR_RETURN(const Gpus gpus, FindGpus(config));
  HONE_RETURN_IF_ERROR(state->MakeBuilder(config, gpus));
  state->metrics = std::make_unique<Metrics>(*state->queue, *state->cache);
  if (!config.metrics.empty()) {
    HONE_RETURN_IF_ERROR(state->metrics->Serve(config.metrics));
    log.For("metrics").Info("listening", {{"address", config.metrics}});
  }
  if (!config.tokens.empty()) {
    absl::StatusOr<std::unique_ptr<AccessControl>> access = AccessControl::Load(config.tokens, log);
    if (!access.ok()) return absl::Status(access.status().code(), absl::StrCat("tokens: ", access.status().message()));
    state->access = *std::move(access);
  }
  const bool judges = config.role == "all" || config.role == "lane";
  const bool builds = config.role == "all" || config.role == "build";
  const std::vector<std::string> gpu_kinds = GpuKinds(config);
  if (!gpu_kinds.empty() && config.screen == "cpu" && builds && state->builder->Toolchain(Backend::kCpu) != "") {
    ScreenOptions screen_options;
    screen_options.lanes = config.screen_lanes;
    screen_options.backends.clear();
    for (const std::string& kind : gpu_kinds) screen_options.backends.push_back(*ParseBackend(kind));
    ServerConfig screening = config;
    screening.runners_ahead = 0;  // they are for what waits for a GPU
    screen_options.start_lane = [screening](int index) { return OneLane(screening, "cpu", index).start(); };
    state->screen = std::make_unique<Screen>(std::move(screen_options), state->builder.get());
  }
  EngineOptions options;
  const CoreShares shares = ShareCores(judges ? GpuLanes(config, gpus) : 0, AllowedCores());
  if (judges) options.lanes = LaneSpecs(config, gpus, shares);
  options.build_cores = shares.others;
  if (builds && config.devices.front() != kNoopDevice) options.build_devices = DeviceKinds(config);
  options.build_slots = builds ? config.build_slots : 0;
  options.formats = state->formats;
  options.roster = state->roster.get();
  options.artefacts = state->artefacts.get();
  options.screen = state->screen.get();
  options.screen_rerun_share = config.screen_rerun_share;
  options.version = HONE_VERSION;
  options.node = state->node;
  HONE_ASSIGN_OR_RETURN(state->engine, Engine::Create(std::move(options), *state->queue, *state->cache, *state->builder,
                                                      *state->metrics, log));
  GrpcServiceOptions service_options;
  service_options.access = state->access.get();
  service_options.max_stream_jobs = config.max_stream_jobs;
  service_options.holds = config.holds;
  state->service = MakeGrpcService(*state->engine, service_options);
  HONE_RETURN_IF_ERROR(state->Listen(config));
  HONE_RETURN_IF_ERROR(state->ServeHttp(config, log));
  state->Announce(config);
  if (state->server) state->server->GetHealthCheckService()->SetServingStatus(true);
  if (state->roster) log.Info("joined the farm", {{"queue", ParseRedisUrl(config.queue)->Name()}, {"role", config.role}});
  for (const std::string& address : state->addresses) log.Info("listening", {{"address", address}});
  return std::unique_ptr<Server>(new Server(std::move(state)));
}

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}

Server::~Server() {
  state_->engine->Drain(SteadyTime::InfinitePast());
  if (!state_->server) return;
  // Every call has its answer. What is left are idle connections, whose clients may not be looking.
  state_->server->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(500));
}

const std::vector<std::string>& Server::addresses() const { return state_->addresses; }

void Server::Drain(SteadyTime deadline) {
  if (state_->server) state_->server->GetHealthCheckService()->SetServingStatus(false);
  state_->engine->Drain(deadline);
}

}  // namespace hone::verifier
