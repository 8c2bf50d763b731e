#include "rollout/engine/scheduler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace hone::rollout {
namespace {

constexpr int64_t kPage = Runner::kPagePositions;
// Pages kept free for each sample that runs when another prompt is read: less, and what was read is soon preempted again.
constexpr int64_t kHeadroomPages = 4;

int64_t PagesFor(int64_t tokens) { return (tokens + kPage - 1) / kPage; }

// Extends the last span or opens one.
void AddVersion(std::vector<VersionSpan>& spans, int64_t token, int64_t version) {
  if (!spans.empty() && spans.back().policy_version == version) {
    spans.back().end = token + 1;
  } else {
    spans.push_back({token, token + 1, version});
  }
}

}  // namespace

struct Scheduler::Request {
  RequestId id = 0;
  GenerationRequest wanted;
  RequestEvents events;
  std::vector<Sample> results;
  std::vector<bool> ended;
  int64_t open = 0;  // samples that have not ended

  int64_t TokensOf(size_t sample) const { return static_cast<int64_t>(results[sample].ids.size()); }
};

// A sequence that is read into pages, and the samples that go on from its end: all of a new request, or one that had to
// give up its pages.
struct Scheduler::Reading {
  std::shared_ptr<Request> request;
  std::vector<size_t> samples;
  std::vector<int32_t> ids;
  std::vector<int32_t> table;  // each page held once; empty until admitted
  int64_t read = 0;
  int64_t version = -1;        // of the weights that read its last token
  bool mixed = false;          // other weights read some of it
  size_t waiting = 0;          // samples that still need its pages
};

struct Scheduler::Ready {
  std::shared_ptr<Reading> reading;
  size_t sample;
};

struct Scheduler::Running {
  std::shared_ptr<Request> request;
  size_t sample = 0;
  std::vector<int32_t> table;
  int64_t length = 0;    // tokens whose keys and values are in the pages once everything launched has run
  int64_t pending = 0;   // tokens launched and not collected
  int32_t last_row = -1; // in the step launched last
  int64_t version = -1;  // of the weights that read what it started from; -1: of several
  bool ended = false;
};

struct Scheduler::Launched {
  std::vector<std::shared_ptr<Running>> rows;
  int64_t version = 0;
};

Scheduler::Scheduler(Runner& runner) : runner_(runner), pool_(runner.pages()) {}
Scheduler::~Scheduler() = default;

absl::StatusOr<Scheduler::RequestId> Scheduler::Submit(GenerationRequest wanted, RequestEvents events) {
  HONE_RETURN_IF_ERROR(Validate(wanted.sampling));
  if (wanted.samples < 1) return absl::InvalidArgumentError(absl::StrCat("samples = ", wanted.samples, ", allowed >= 1"));
  if (wanted.prompt_ids.empty()) return absl::InvalidArgumentError("the prompt is empty");
  const int64_t need = PagesFor(static_cast<int64_t>(wanted.prompt_ids.size()) + wanted.sampling.max_tokens);
  if (need > runner_.pages()) {
    return absl::ResourceExhaustedError(absl::StrCat("a sample needs up to ", need, " cache pages of ", kPage,
                                                     " tokens, the cache has ", runner_.pages(),
                                                     ": shorten max_tokens or give the cache more memory"));
  }
  auto request = std::make_shared<Request>();
  request->id = next_id_++;
  request->open = wanted.samples;
  request->results.resize(wanted.samples);
  request->ended.resize(wanted.samples, false);
  request->wanted = std::move(wanted);
  request->events = std::move(events);
  requests_.push_back(request);
  std::vector<size_t> samples(request->open);
  for (size_t i = 0; i < samples.size(); ++i) samples[i] = i;
  QueueReading(request, std::move(samples), false);
  return request->id;
}

// The samples must have the same tokens so far: none, or there is one.
void Scheduler::QueueReading(const std::shared_ptr<Request>& request, std::vector<size_t> samples, bool first) {
  auto reading = std::make_shared<Reading>();
  reading->request = request;
  reading->ids = request->wanted.prompt_ids;
  const std::vector<int32_t>& more = request->results[samples[0]].ids;
  reading->ids.insert(reading->ids.end(), more.begin(), more.end());
  reading->samples = std::move(samples);
  if (!first) {
    readings_.push_back(std::move(reading));
  } else {  // before what has not been begun
    const bool begun = !readings_.empty() && readings_.front()->read > 0;
    readings_.insert(readings_.begin() + (begun ? 1 : 0), std::move(reading));
  }
}

absl::Status Scheduler::Step() {
  bool read = true;
  while (read) {
    HONE_ASSIGN_OR_RETURN(read, Read());
    HONE_RETURN_IF_ERROR(Start());
    read &= read_first_;
  }
  HONE_ASSIGN_OR_RETURN(const bool launched, Launch());
  const int64_t ahead = launched ? runner_.lookahead() : 0;
  while (static_cast<int64_t>(launched_.size()) > ahead) HONE_RETURN_IF_ERROR(Collect());
  return absl::OkStatus();
}

// Gives the reading its pages when there is room for it and for the growth of what runs.
bool Scheduler::AdmitReading(Reading& reading, int64_t reserved_pages) {
  if (!reading.table.empty()) return true;
  std::vector<int32_t> known = prefixes_.Find(reading.ids);
  for (int32_t page : known) pool_.Share(page);
  const int64_t need = PagesFor(static_cast<int64_t>(reading.ids.size())) - static_cast<int64_t>(known.size());
  const int64_t headroom = std::min(kHeadroomPages * static_cast<int64_t>(running_.size() + reading.samples.size()), pool_.pages() - need);
  if (!prefixes_.MakeFree(need + std::max<int64_t>(headroom, 1) + reserved_pages)) {
    // With nothing else in the way the headroom is not worth waiting for.
    const bool alone = running_.empty() && ready_.empty() && reserved_pages == 0;
    if (!alone || pool_.free_pages() < need) {
      ReleaseTable(known);
      return false;
    }
  }
  reading.read = static_cast<int64_t>(known.size()) * kPage;
  reading.version = version_;
  stats_.reused_tokens += reading.read;
  reading.table = std::move(known);
  for (int64_t p = 0; p < need; ++p) reading.table.push_back(pool_.Take());
  return true;
}

// False: nothing could be read.
absl::StatusOr<bool> Scheduler::Read() {
  std::vector<PrefillPiece> pieces;
  std::vector<std::shared_ptr<Reading>> ended;
  int64_t tokens = 0, starting = 0;
  const int64_t limit = runner_.max_prefill_tokens();
  // Samples that will need a place; reading ahead of them only ties up pages.
  int64_t places = runner_.max_rows() - static_cast<int64_t>(running_.size() + ready_.size());
  while (!readings_.empty() && tokens < limit && places > 0) {
    const std::shared_ptr<Reading> reading = readings_.front();
    if (!AdmitReading(*reading, starting)) break;
    reading->mixed |= reading->version != version_;
    const int64_t count = std::min<int64_t>(limit - tokens, static_cast<int64_t>(reading->ids.size()) - reading->read);
    PrefillPiece piece{absl::MakeConstSpan(reading->ids).subspan(reading->read, count), reading->read, reading->table, {}};
    reading->read += count;
    tokens += count;
    const bool whole = reading->read == static_cast<int64_t>(reading->ids.size());
    if (whole) {
      const Request& request = *reading->request;
      for (size_t sample : reading->samples) {
        piece.draws.push_back({&request.wanted.sampling, request.wanted.seed, sample, static_cast<uint64_t>(request.TokensOf(sample))});
      }
      readings_.pop_front();
      ended.push_back(reading);
      starting += static_cast<int64_t>(reading->samples.size());
      places -= static_cast<int64_t>(reading->samples.size());
    }
    pieces.push_back(std::move(piece));
    if (!whole) break;
  }
  if (pieces.empty()) return false;
  stats_.prompt_tokens += tokens;
  const int64_t version = version_;
  HONE_ASSIGN_OR_RETURN(const std::vector<TokenDraw> draws, runner_.Prefill(pieces));
  const TokenDraw* next = draws.data();
  for (const std::shared_ptr<Reading>& reading : ended) {
    reading->version = version;
    if (!reading->mixed && version == version_) prefixes_.Insert(reading->ids, reading->table);
    const size_t count = reading->samples.size();
    HONE_RETURN_IF_ERROR(FinishReading(reading, next));
    next += count;
  }
  return true;
}

absl::Status Scheduler::FinishReading(const std::shared_ptr<Reading>& reading, const TokenDraw* draws) {
  Request& request = *reading->request;
  for (size_t sample : reading->samples) {
    const TokenDraw& draw = *draws++;
    if (request.ended[sample]) continue;  // aborted meanwhile, from a callback
    HONE_RETURN_IF_ERROR(Accept(request, sample, draw, reading->version));
    if (Ended(request, sample)) {
      Finish(request, sample);
    } else {
      ready_.push_back({reading, sample});
      ++reading->waiting;
    }
  }
  if (reading->waiting == 0) ReleaseTable(reading->table);
  return absl::OkStatus();
}

// Moves samples that have been read to the running ones while there are places and pages.
absl::Status Scheduler::Start() {
  std::vector<std::pair<int32_t, int32_t>> copies;
  while (!ready_.empty() && static_cast<int64_t>(running_.size()) < runner_.max_rows()) {
    Reading& reading = *ready_.front().reading;
    auto sample = std::make_shared<Running>();
    sample->request = reading.request;
    sample->sample = ready_.front().sample;
    sample->length = static_cast<int64_t>(reading.ids.size());
    sample->version = reading.mixed ? -1 : reading.version;
    const int64_t full = sample->length / kPage;
    if (reading.waiting == 1) {
      sample->table = std::move(reading.table);
    } else {
      const bool partial = sample->length % kPage != 0;
      if (partial && !prefixes_.MakeFree(1)) {
        if (!running_.empty() || ready_.size() == 1) break;
        DropReady(1);  // nothing runs that could free a page
        continue;
      }
      sample->table.assign(reading.table.begin(), reading.table.begin() + full);
      for (int32_t page : sample->table) pool_.Share(page);
      if (partial) {
        sample->table.push_back(pool_.Take());
        copies.push_back({reading.table[full], sample->table[full]});
      }
    }
    --reading.waiting;
    ready_.pop_front();
    running_.push_back(std::move(sample));
  }
  return copies.empty() ? absl::OkStatus() : runner_.CopyPages(copies);
}

// False: nothing is left to launch before what was launched is collected.
absl::StatusOr<bool> Scheduler::Launch() {
  std::vector<std::shared_ptr<Running>> rows;
  for (size_t i = 0; i < running_.size();) {
    const std::shared_ptr<Running> sample = running_[i];
    const Request& request = *sample->request;
    if (request.TokensOf(sample->sample) + sample->pending >= request.wanted.sampling.max_tokens) {
      ++i;  // its last token is on the way
      continue;
    }
    if (sample->length == static_cast<int64_t>(sample->table.size()) * kPage) {
      if (!prefixes_.MakeFree(1)) {
        const size_t before = running_.size();
        HONE_ASSIGN_OR_RETURN(const bool room, MakeRoom(sample.get()));
        if (!room) return absl::InternalError("the cache has no page for the only running sample");
        // Rooms are made at the end of running_, but draining may have ended samples anywhere: begin again.
        if (running_.size() != before) {
          rows.clear();
          i = 0;
          continue;
        }
      }
      sample->table.push_back(pool_.Take());
    }
    rows.push_back(sample);
    ++i;
  }
  if (rows.empty()) return false;
  std::vector<DecodeRow> steps;
  steps.reserve(rows.size());
  for (size_t r = 0; r < rows.size(); ++r) {
    Running& sample = *rows[r];
    const Request& request = *sample.request;
    DecodeRow row;
    if (sample.pending > 0) {
      row.after_row = sample.last_row;
    } else {
      row.id = request.results[sample.sample].ids.back();
    }
    row.position = sample.length;
    row.table = sample.table;
    row.draw = {&request.wanted.sampling, request.wanted.seed, sample.sample,
                static_cast<uint64_t>(request.TokensOf(sample.sample) + sample.pending)};
    steps.push_back(row);
  }
  HONE_RETURN_IF_ERROR(runner_.LaunchDecode(steps));
  for (const std::shared_ptr<Running>& sample : running_) sample->last_row = -1;
  for (size_t r = 0; r < rows.size(); ++r) {
    rows[r]->last_row = static_cast<int32_t>(r);
    ++rows[r]->length;
    ++rows[r]->pending;
  }
  launched_.push_back({std::move(rows), version_});
  return true;
}

absl::Status Scheduler::Collect() {
  HONE_ASSIGN_OR_RETURN(const std::vector<TokenDraw> draws, runner_.CollectDecode());
  const Launched step = std::move(launched_.front());
  launched_.pop_front();
  for (size_t r = 0; r < step.rows.size(); ++r) {
    Running& sample = *step.rows[r];
    --sample.pending;
    if (sample.ended) continue;  // it stopped in the step before, or was aborted
    HONE_RETURN_IF_ERROR(Accept(*sample.request, sample.sample, draws[r], step.version));
    if (!Ended(*sample.request, sample.sample)) continue;
    sample.ended = true;
    Keep(sample);
    ReleaseTable(sample.table);
    Finish(*sample.request, sample.sample);
  }
  std::erase_if(running_, [](const std::shared_ptr<Running>& sample) { return sample->ended; });
  return absl::OkStatus();
}

absl::Status Scheduler::Drain() {
  while (!launched_.empty()) HONE_RETURN_IF_ERROR(Collect());
  return absl::OkStatus();
}

// Frees at least one page; false when only `keep` could give one.
absl::StatusOr<bool> Scheduler::MakeRoom(const Running* keep) {
  HONE_RETURN_IF_ERROR(Drain());
  while (!prefixes_.MakeFree(1)) {
    if (!running_.empty() && running_.back().get() != keep) {
      Preempt(running_.size() - 1);
    } else if (!ready_.empty()) {
      DropReady(0);
    } else if (running_.size() > 1) {  // keep itself is the youngest
      Preempt(running_.size() - 1);
      return true;
    } else if (!readings_.empty() && !readings_.front()->table.empty()) {
      ReleaseTable(readings_.front()->table);
      readings_.front()->read = 0;
      readings_.front()->mixed = false;
    } else {
      return false;
    }
  }
  return true;
}

void Scheduler::Preempt(size_t index) {
  const std::shared_ptr<Running> sample = running_[index];
  running_.erase(running_.begin() + static_cast<int64_t>(index));
  ReleaseTable(sample->table);
  sample->ended = true;  // this run of it
  QueueReading(sample->request, {sample->sample}, true);
  ++stats_.preempted;
}

// Samples that were read but have not started give their pages back, all but the first `keep`; each is read again on its
// own.
void Scheduler::DropReady(size_t keep) {
  while (ready_.size() > keep) {
    const Ready dropped = ready_.back();
    ready_.pop_back();
    if (--dropped.reading->waiting == 0) ReleaseTable(dropped.reading->table);
    QueueReading(dropped.reading->request, {dropped.sample}, true);
    ++stats_.preempted;
  }
}

// Leaves a sample's pages to later prompts that begin with its tokens: the next turn of its conversation.
void Scheduler::Keep(const Running& sample) {
  const Sample& result = sample.request->results[sample.sample];
  const bool one_version = sample.version == version_ && result.versions.size() == 1 && result.versions[0].policy_version == version_;
  if (!one_version) return;
  std::vector<int32_t> ids = sample.request->wanted.prompt_ids;
  ids.insert(ids.end(), result.ids.begin(), result.ids.end() - 1);  // the last token was never read
  prefixes_.Insert(ids, sample.table);
}

void Scheduler::set_version(int64_t version) {
  if (version != version_) prefixes_.Clear();
  version_ = version;
}

void Scheduler::ReleaseTable(std::vector<int32_t>& table) {
  for (int32_t page : table) pool_.Release(page);
  table.clear();
}

absl::Status Scheduler::Accept(Request& request, size_t sample, const TokenDraw& draw, int64_t version) {
  if (draw.id < 0) return NotFinite(request, sample);
  Sample& result = request.results[sample];
  AddVersion(result.versions, static_cast<int64_t>(result.ids.size()), version);
  result.ids.push_back(draw.id);
  result.log_probs.push_back(draw.log_prob);
  ++stats_.tokens;
  return absl::OkStatus();
}

absl::Status Scheduler::NotFinite(const Request& request, size_t sample) {
  std::vector<int32_t> ids = request.wanted.prompt_ids;
  ids.insert(ids.end(), request.results[sample].ids.begin(), request.results[sample].ids.end());
  const absl::StatusOr<std::string> part = runner_.FirstNonFinite(ids);
  return absl::InternalError(absl::StrCat("request ", request.id, ", sample ", sample, ", token ", request.TokensOf(sample),
                                          ": logits are not finite",
                                          part.ok() && !part->empty() ? absl::StrCat(", first in ", *part) : ""));
}

bool Scheduler::Ended(Request& request, size_t sample) {
  const SamplingOptions& sampling = request.wanted.sampling;
  Sample& result = request.results[sample];
  const bool stop_id = std::find(sampling.stop_ids.begin(), sampling.stop_ids.end(), result.ids.back()) != sampling.stop_ids.end();
  const bool told = request.events.on_token && request.events.on_token(sample, result);
  result.finish = stop_id || told ? FinishReason::kStop : FinishReason::kLength;
  return stop_id || told || request.TokensOf(sample) >= sampling.max_tokens;
}

void Scheduler::Finish(Request& request, size_t sample) {
  if (request.ended[sample]) return;
  request.ended[sample] = true;
  --request.open;
  request.events.on_sample(sample, request.results[sample]);
  if (request.open > 0) return;
  const auto found = std::find_if(requests_.begin(), requests_.end(), [&](const auto& r) { return r.get() == &request; });
  if (found != requests_.end()) requests_.erase(found);
}

absl::Status Scheduler::Abort(RequestId id) {
  const auto found = std::find_if(requests_.begin(), requests_.end(), [&](const auto& r) { return r->id == id; });
  if (found == requests_.end()) return absl::OkStatus();
  const std::shared_ptr<Request> request = *found;
  for (const std::shared_ptr<Running>& sample : running_) {
    if (sample->request != request || sample->ended) continue;
    sample->ended = true;
    ReleaseTable(sample->table);
  }
  std::erase_if(running_, [](const std::shared_ptr<Running>& sample) { return sample->ended; });
  for (const Ready& ready : ready_) {
    if (ready.reading->request == request && --ready.reading->waiting == 0) ReleaseTable(ready.reading->table);
  }
  std::erase_if(ready_, [&](const Ready& ready) { return ready.reading->request == request; });
  for (const std::shared_ptr<Reading>& reading : readings_) {
    if (reading->request == request) ReleaseTable(reading->table);
  }
  std::erase_if(readings_, [&](const std::shared_ptr<Reading>& reading) { return reading->request == request; });
  for (size_t i = 0; i < request->results.size(); ++i) {
    if (request->ended[i]) continue;
    request->results[i].finish = FinishReason::kAborted;
    Finish(*request, i);
  }
  return absl::OkStatus();
}

absl::Status Scheduler::AbortAll() {
  while (!requests_.empty()) HONE_RETURN_IF_ERROR(Abort(requests_.front()->id));
  return absl::OkStatus();
}

void Scheduler::Forget() {
  while (!launched_.empty()) {
    runner_.CollectDecode().IgnoreError();
    launched_.pop_front();
  }
  running_.clear();
  ready_.clear();
  readings_.clear();
  requests_.clear();
  prefixes_.Clear();
  pool_ = PagePool(runner_.pages());
}

SchedulerStats Scheduler::stats() const {
  SchedulerStats stats = stats_;
  stats.running = static_cast<int64_t>(running_.size());
  stats.free_pages = pool_.free_pages() + prefixes_.reclaimable();
  for (const std::shared_ptr<Request>& request : requests_) stats.waiting += request->open;
  stats.waiting -= stats.running;
  return stats;
}

}  // namespace hone::rollout
