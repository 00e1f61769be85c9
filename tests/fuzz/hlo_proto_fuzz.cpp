#include <cstdlib>
#include <random>

#include "sim/base/error.h"
#include "tests/fuzz/one_input.h"
#include "workloads/hlo/hlo_reader.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace {

/// A field of a message in protobuf's wire format.
struct Field {
  std::uint64_t key = 0;
  std::string body;  ///< Without the length of a nested message or text.
};

std::uint64_t read_varint(std::string_view& text) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64 && !text.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(text.front());
    text.remove_prefix(1);
    value |= std::uint64_t{byte & 127U} << shift;
    if (byte < 128) break;
  }
  return value;
}
void write_varint(std::string& text, std::uint64_t value) {
  for (; value >= 128; value >>= 7) text += static_cast<char>((value & 127) | 128);
  text += static_cast<char>(value);
}

/// The fields of a message; false when it is none.
bool split(std::string_view text, std::vector<Field>& fields) {
  while (!text.empty()) {
    Field field;
    field.key = read_varint(text);
    std::size_t length = 0;
    switch (field.key & 7) {
      case 0:
        write_varint(field.body, read_varint(text));
        break;
      case 1:
        length = 8;
        break;
      case 2:
        length = read_varint(text);
        break;
      case 5:
        length = 4;
        break;
      default:
        return false;
    }
    if (length > text.size()) return false;
    field.body += text.substr(0, length);
    text.remove_prefix(length);
    fields.push_back(std::move(field));
  }
  return true;
}
std::string join(const std::vector<Field>& fields) {
  std::string text;
  for (const Field& field : fields) {
    write_varint(text, field.key);
    if ((field.key & 7) == 2) write_varint(text, field.body.size());
    text += field.body;
  }
  return text;
}

/// Changes one field of the message, or of one nested in it; lengths stay right.
std::string change(const std::string& message, std::minstd_rand& random, int depth) {
  std::vector<Field> fields;
  if (!split(message, fields) || fields.empty()) return message;
  const std::size_t at = random() % fields.size();
  Field& field = fields[at];
  const bool nested = (field.key & 7) == 2;
  if (nested && depth < 6 && random() % 5 != 0) {
    field.body = change(field.body, random, depth + 1);
    return join(fields);
  }
  const Field other = fields[random() % fields.size()];
  switch (random() % 5) {
    case 0:
      fields.erase(fields.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case 1:
      fields.insert(fields.begin() + static_cast<std::ptrdiff_t>(at), other);
      break;
    case 2:
      field.key = field.key % 8 + random() % 70 * 8;
      break;
    case 3:
      field.body = other.body;
      break;
    default:
      if ((field.key & 7) == 0) {
        field.body.clear();
        const std::uint64_t ends[] = {
            0, 1, 2, 127, 1U << 31, ~std::uint64_t{0}, std::uint64_t{1} << 62};
        write_varint(field.body, ends[random() % 7]);
      } else if (!field.body.empty()) {
        field.body[random() % field.body.size()] ^= static_cast<char>(1U << random() % 8);
      }
  }
  return join(fields);
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  std::minstd_rand random(seed);
  if (random() % 4 == 0) return LLVMFuzzerMutate(data, size, most);
  const std::string text = change(std::string(reinterpret_cast<char*>(data), size), random, 0);
  const std::size_t length = std::min(text.size(), most);
  std::copy(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(length), data);
  return length;
}

/// An HloModuleProto is a module that can be printed, or it is refused.
void tpu::fuzz::one_input(const std::uint8_t* data, std::size_t size) {
  using namespace tpu::hlo;
  try {
    const Module module = read_hlo("f.pb", {reinterpret_cast<const char*>(data), size});
    verify(module);
    to_string(module);
  } catch (const tpu::WorkloadError&) {
  }
}
