#pragma once

// The decoder's arithmetic on a CPU in fp32: plain loops over plain arrays, no torch.
//
// Promise: a row's result has the same bits whatever other rows are computed with it, however the work is cut between
// threads, and whether keys come from a packed sequence or from cache pages. So the learner's forward over packed
// sequences and the engine's forward of one token agree to the bit. (A BLAS picks its kernel by shape and does not.)
// The bits depend on the instruction set: machines with different vector units may differ in the last digit.
//
// All functions work on a range of rows so that the caller cuts the work; none allocates more than a row's scratch.
// Thread-safe on disjoint ranges.

#include <cstdint>

namespace hone::policy::cpu {

// --- linear layers

/// Outputs of one weight panel; a packed weight holds ceil(out / kPanel) panels of [in][kPanel], zero-padded.
inline constexpr int64_t kPanel = 32;
int64_t PackedWeightSize(int64_t out, int64_t in);
/// weight [out, in], row-major -> packed panels [panel_begin, panel_end).
void PackWeight(const float* weight, int64_t out, int64_t in, int64_t panel_begin, int64_t panel_end, float* packed);
/// The same of bf16 weights (their bits), kept as bf16: half the memory to read. Panels are [ceil(in / 2)][kPanel][2], as
/// the instruction takes them that multiplies pairs of bf16 (where the machine has it).
int64_t PackedHalfSize(int64_t out, int64_t in);
void PackWeight(const uint16_t* weight, int64_t out, int64_t in, int64_t panel_begin, int64_t panel_end, uint16_t* packed);
/// fp32 -> bf16 to the nearest, ties to even; a NaN stays one. A row has RoundUp(in, 2) numbers in `y`, the last one zero.
void RoundRows(const float* x, int64_t in, int64_t row_begin, int64_t row_end, uint16_t* y);
/// As Linear below, of rows from RoundRows: exact products of bf16, added up in fp32.
void Linear(const uint16_t* x, const uint16_t* packed, const float* bias, int64_t in, int64_t out, int64_t row_begin,
            int64_t row_end, int64_t panel_begin, int64_t panel_end, float* y);
/// The same panels from the transposed matrix: matrix [in, out], row-major. For products without a transpose.
void PackMatrix(const float* matrix, int64_t out, int64_t in, int64_t panel_begin, int64_t panel_end, float* packed);
/// y[r, n] = bias[n] + sum_k x[r, k] * weight[n, k], k ascending, for the given rows and panels. bias may be null.
void Linear(const float* x, const float* packed, const float* bias, int64_t in, int64_t out, int64_t row_begin,
            int64_t row_end, int64_t panel_begin, int64_t panel_end, float* y);

// --- normalisation: y = x / sqrt(mean(x^2) + eps) * (weight + offset)   (offset 1 in Gemma)

void RmsNorm(const float* x, const float* weight, float offset, float eps, int64_t dim, int64_t row_begin,
             int64_t row_end, float* y, float* inverse_rms);
/// dx per row; dweight [dim] is accumulated over the rows.
void RmsNormBackward(const float* x, const float* weight, float offset, const float* inverse_rms, const float* dy,
                     int64_t dim, int64_t row_begin, int64_t row_end, float* dx, float* dweight);

// --- rotary position embedding, HF layout: pairs (i, i + head_dim / 2)

/// Rows of `width` numbers; the first `heads` heads of each are rotated by the row's angles, the rest is copied.
/// cos, sin: [rows, head_dim / 2]. sign -1 is the inverse. y may be x.
void Rope(const float* x, const float* cos, const float* sin, float sign, int64_t width, int64_t heads, int64_t head_dim,
          int64_t row_begin, int64_t row_end, float* y);

// --- gated activation: y = act(gate) * up, gate_up rows hold [gate | up]

enum class Activation { kSilu, kGeluTanh };
void GatedActivation(const float* gate_up, Activation activation, int64_t width, int64_t row_begin, int64_t row_end,
                     float* y);
void GatedActivationBackward(const float* gate_up, const float* dy, Activation activation, int64_t width,
                             int64_t row_begin, int64_t row_end, float* dgate_up);

// --- attention

/// Positions of one block of keys; also the engine's page size.
inline constexpr int64_t kKeyBlock = 16;

/// Where the keys and values of one sequence and one key head lie, in blocks of kKeyBlock positions.
struct KeyValueBlocks {
  const float* const* keys;    // [blocks] -> [head_dim][kKeyBlock]: transposed
  const float* const* values;  // [blocks] -> [kKeyBlock] rows, `value_stride` numbers apart
  int64_t value_stride;
};

/// Numbers of scratch that Attend and AttendBackward need for sequences up to `length`.
int64_t AttendScratch(int64_t length);

/// One query over the positions [first, length): out = sum_j softmax(scale * q.k_j)_j v_j. Returns log(sum exp(score)).
float Attend(const float* query, const KeyValueBlocks& blocks, int64_t first, int64_t length, int64_t head_dim,
             float scale, float* scratch, float* out);

/// Adds one query's gradients. values_transposed: as keys. dkeys, dvalues: [positions] rows, `stride` apart.
/// keys_rows: the keys as rows, `key_stride` apart. out_dot: out . dout.
void AttendBackward(const float* query, const KeyValueBlocks& blocks, const float* const* values_transposed,
                    const float* key_rows, int64_t key_stride, int64_t first, int64_t length, int64_t head_dim,
                    float scale, float log_sum, const float* dout, float out_dot, float* scratch, float* dquery,
                    float* dkeys, float* dvalues, int64_t stride);

/// rows [count] of head_dim numbers, `stride` apart -> blocks of [head_dim][kKeyBlock], zero-padded.
void TransposeIntoBlocks(const float* rows, int64_t stride, int64_t count, int64_t head_dim, float* blocks);

// --- log-probabilities of one row of logits, at a temperature

struct RowLogProb {
  float log_sum = 0;   // log sum exp(logit / temperature)
  float entropy = 0;   // of softmax(logits / temperature), in nats
};
RowLogProb LogProbRow(const float* logits, int64_t vocab, float temperature);
/// dlogits for log_prob(target) weighted dlog_prob plus entropy weighted dentropy. dlogits may be logits.
void LogProbRowBackward(const float* logits, int64_t vocab, float temperature, const RowLogProb& row, int64_t target,
                        float dlog_prob, float dentropy, float* dlogits);

}  // namespace hone::policy::cpu
