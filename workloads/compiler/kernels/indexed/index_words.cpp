#include "workloads/compiler/kernels/indexed/index_words.h"

#include "sim/base/ceil_divide.h"

namespace tpu::compiler {

using isa::Opcode;

std::int64_t indices_at_once(const Target& target) {
  return target.kernel_smem_words() >= 5 * kIndexTile / 2 ? 2 * kIndexTile : kIndexTile;
}

void repeat(KernelBuilder& builder, std::int64_t count, const std::function<void(Index)>& body) {
  if (count == 1) {
    body({});
  } else {
    builder.loop(static_cast<std::uint64_t>(count), [&](SReg index) { body({index, 0}); });
  }
}

IndexWords::IndexWords(KernelBuilder& builder, SReg hbm, std::int64_t count, std::int64_t chunk)
    : builder_(builder),
      hbm_(hbm),
      count_(count),
      chunk_(chunk),
      words_(builder.allocate_smem(static_cast<std::uint32_t>(chunk_))),
      flag_(builder.allocate_flag()) {}

void IndexWords::load(Index chunk) {
  const std::int64_t indices = is_last(chunk) ? count_ % chunk_ : chunk_;
  const std::int64_t granules = ceil_divide(indices, kIndexTile) * kIndexTileGranules;
  const Index place = multiply(builder_, chunk, chunk_ / kIndexTile * kIndexTileGranules);
  builder_.misc(Opcode::kDmaHbmToSmem,
                {builder_.add(hbm_, to_operand(builder_, place)), granules, words_, flag_});
  builder_.wait(flag_, static_cast<std::uint64_t>(granules));
  builder_.new_block();
}

void IndexWords::for_each_chunk(const std::function<void(Index, std::int64_t)>& body) {
  const auto loaded = [&](Index chunk, std::int64_t indices) {
    load(chunk);
    body(chunk, indices);
  };
  const std::int64_t full = count_ / chunk_, rest = count_ % chunk_;
  if (full > 0) repeat(builder_, full, [&](Index chunk) { loaded(chunk, chunk_); });
  if (rest > 0) loaded({{}, full}, rest);
}

SReg IndexWords::get(Index i) {
  return builder_.load_smem(words_ + static_cast<std::uint32_t>(i.offset), i.reg);
}

SReg IndexWords::clamped(Index i, std::int64_t table_rows) {
  return builder_.min(builder_.max(get(i), 0), table_rows - 1);
}

}  // namespace tpu::compiler
