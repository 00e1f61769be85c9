#include "workloads/hlo/proto_reader.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>

#include "sim/base/error.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::hlo::proto_reader_test {
namespace {

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
std::string number(int field, std::int64_t value) {
  return varint(static_cast<std::uint64_t>(field) << 3) + varint(static_cast<std::uint64_t>(value));
}
std::string bytes(int field, const std::string& value) {
  return varint(static_cast<std::uint64_t>(field) << 3 | 2) + varint(value.size()) + value;
}
std::string floats(const std::vector<float>& values) {
  std::string packed(values.size() * sizeof(float), '\0');
  std::memcpy(packed.data(), values.data(), packed.size());
  return packed;
}

constexpr int kF32 = 11;

/// A ShapeProto of f32 with a row-major layout.
std::string shape(const std::vector<std::int64_t>& dimensions) {
  std::string order;
  for (std::size_t i = dimensions.size(); i-- > 0;) order += varint(i);
  std::string message = number(2, kF32);
  for (std::int64_t dimension : dimensions) message += number(3, dimension);
  return message + bytes(5, bytes(1, order));
}

std::string instruction(const std::string& name, const std::string& opcode, std::int64_t id,
                        const std::string& its_shape, const std::string& rest = "") {
  return bytes(2, bytes(1, name) + bytes(2, opcode) + bytes(3, its_shape) + number(35, id) + rest);
}

/// %sum(a) = reduce over a called computation, with a constant; as XLA numbers them.
std::string module(const std::string& operands = number(36, 11) + number(36, 12)) {
  const std::string add = bytes(1, "add") + instruction("x", "parameter", 1, shape({})) +
                          instruction("y", "parameter", 2, shape({}), number(9, 1)) +
                          instruction("s", "add", 3, shape({}), number(36, 1) + number(36, 2)) +
                          number(5, 5) + number(6, 3);
  const std::string metadata = bytes(7, bytes(2, "jit(f)/\"sum\"") + number(15, 1));
  const std::string entry =
      bytes(1, "main") + instruction("a", "parameter", 11, shape({2, 3})) +
      instruction("z", "constant", 12, shape({}),
                  bytes(8, bytes(1, shape({})) + bytes(8, floats({0.5f})))) +
      instruction("r", "reduce", 13, shape({2}),
                  operands + bytes(14, varint(1)) + bytes(38, varint(5)) + metadata) +
      number(5, 6) + number(6, 13);
  const std::string frames =
      bytes(17, bytes(1, "f.py") + bytes(2, "f") +
                    bytes(3, number(1, 1) + number(2, 1) + number(3, 7)) + bytes(4, number(1, 1)));
  return bytes(1, "m") + bytes(2, "main") + bytes(3, add) + bytes(3, entry) + number(6, 6) + frames;
}

const char kText[] = R"(HloModule m
FileNames
1 "f.py"
FunctionNames
1 "f"
FileLocations
1 {file_name_id=1 function_name_id=1 line=7}
StackFrames
1 {file_location_id=1 parent_frame_id=1}
add { x = f32[] parameter(0)
 y = f32[] parameter(1)
 ROOT s = f32[] add(x, y) }
ENTRY main {
  a = f32[2,3]{1,0} parameter(0)
  z = f32[] constant(0.5)
  ROOT r = f32[2]{0} reduce(a, z), dimensions={1}, to_apply=add, metadata={op_name="jit(f)/\"sum\"" stack_frame_id=1}
})";

std::string error_of(const std::string& proto) {
  try {
    verify(read_hlo_proto("m.pb", proto));
  } catch (const WorkloadError& error) {
    return error.what();
  }
  return "no error";
}

TEST(HloProto, IsTheModuleOfItsText) {
  const Module read = read_hlo("m.pb", module());
  EXPECT_EQ(to_string(read), to_string(read_hlo("m.hlo", kText)));
  EXPECT_EQ(source_of(read, read.entry_computation().at(2).metadata), "f.py:7");
  verify(read);
}

TEST(HloProto, IsFoundInsideTheMessagesAroundIt) {
  const std::string wrapped = bytes(1, module());
  EXPECT_EQ(to_string(read_hlo("m.pb", wrapped)), to_string(read_hlo("m.pb", module())));
  EXPECT_EQ(to_string(read_hlo("m.pb", bytes(1, wrapped))), to_string(read_hlo("m.pb", module())));
}

/// The first of an enumeration's numbers is 0, which a proto leaves out.
TEST(HloProto, AFourierTransformWithoutATypeIsFft) {
  const auto type_of = [](const std::string& fields) {
    std::string complex = shape({4, 8});
    complex.replace(0, 2, number(2, 15));
    const std::string entry =
        bytes(1, "main") + instruction("a", "parameter", 1, complex) +
        instruction("f", "fft", 2, complex, number(36, 1) + fields + bytes(32, varint(8))) +
        number(5, 5) + number(6, 2);
    const Module module =
        read_hlo("m.pb", bytes(1, "m") + bytes(2, "main") + bytes(3, entry) + number(6, 5));
    return module.entry_computation().at(1).raw_attributes.get();
  };
  EXPECT_EQ(type_of(""), "fft_type=FFT, fft_length={8}");
  EXPECT_EQ(type_of(number(31, 1)), "fft_type=IFFT, fft_length={8}");
}

/// What only some instructions and modules have, beside the text of the same module.
TEST(HloProto, RareFieldsAreThoseOfTheText) {
  const std::string matrix = shape({2, 2});
  std::string tuple = number(2, 13), operands, shardings;
  for (int i = 0; i < 6; ++i) {
    tuple += bytes(4, matrix);
    operands += number(36, 2 + (i == 5));
    shardings += bytes(5, number(1, 0));
  }
  const std::string products = bytes(1, varint(1)) + bytes(2, varint(0));
  const std::string entry =
      bytes(1, "main") + instruction("a", "parameter", 1, matrix, bytes(7, number(4, 0))) +
      instruction(
          "s", "triangular-solve", 2, matrix,
          number(36, 1) + number(36, 1) + bytes(59, number(1, 1) + number(2, 1) + number(4, 2))) +
      instruction("d", "dot", 3, matrix,
                  number(36, 1) + number(36, 2) + bytes(30, products) +
                      bytes(51, bytes(1, varint(2) + varint(0)) + number(2, 6))) +
      instruction("e", "dot", 7, matrix,
                  number(36, 1) + number(36, 2) + bytes(30, products) +
                      bytes(51, bytes(1, varint(1) + varint(1)))) +
      instruction("t", "tuple", 4, tuple, operands + bytes(40, number(1, 2) + shardings)) +
      number(5, 6) + number(6, 4);
  const std::string text =
      R"(HloModule m, input_output_alias={ {5}: (0, {}, may-alias) }, entry_computation_layout={(f32[2,2]{1,0})->(f32[2,2]{1,0}, f32[2,2]{1,0}, f32[2,2]{1,0}, f32[2,2]{1,0}, f32[2,2]{1,0}, f32[2,2]{1,0})}, replica_count=2, num_partitions=4
ENTRY main {
  a = f32[2,2]{1,0} parameter(0)
  s = f32[2,2]{1,0} triangular-solve(a, a), left_side=true, lower=true, transpose_a=TRANSPOSE
  d = f32[2,2]{1,0} dot(a, s), lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={highest,default}, algorithm=dot_bf16_bf16_f32
  e = f32[2,2]{1,0} dot(a, s), lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={high,high}
  ROOT t = (f32[2,2]{1,0}, f32[2,2]{1,0}, f32[2,2]{1,0}, f32[2,2]{1,0}, f32[2,2]{1,0}, /*index=5*/f32[2,2]{1,0}) tuple(s, s, s, s, s, d), sharding={{replicated}, {replicated}, {replicated}, {replicated}, {replicated}, /*index=5*/{replicated}}
})";
  const Module read =
      read_hlo("m.pb", bytes(1, "m") + bytes(2, "main") + bytes(3, entry) + number(6, 6) +
                           bytes(4, bytes(1, matrix) + bytes(2, tuple)) +
                           bytes(8, bytes(1, bytes(1, varint(5)) + number(2, 0) + number(4, 1))) +
                           bytes(15, number(1, 2) + number(2, 4)));
  verify(read);
  EXPECT_EQ(to_string(read), to_string(read_hlo("m.hlo", text)));
  ASSERT_EQ(read.aliases.size(), 1U);
  EXPECT_EQ(read.aliases[0].output_index, 5);
  EXPECT_EQ(read.replicas, 8);
  EXPECT_EQ(read.partitions, 4);
}

TEST(HloProto, TheScheduleOrdersTheInstructions) {
  const std::string sequence = bytes(1, varint(12) + varint(11) + varint(13));
  const Module read =
      read_hlo_proto("m.pb", module() + bytes(7, bytes(1, number(1, 6) + bytes(2, sequence))));
  EXPECT_EQ(read.entry_computation().at(0).name, "z");
  EXPECT_EQ(read.entry_computation().at(2).operands, (std::vector<InstructionId>{1, 0}));
  EXPECT_EQ(read.raw_attributes, "is_scheduled=true");
}

TEST(HloProto, LiteralsInAnotherLayoutBecomeRowMajor) {
  const std::string column_major =
      number(2, kF32) + number(3, 2) + number(3, 3) + bytes(5, bytes(1, varint(0) + varint(1)));
  const std::string constant =
      instruction("c", "constant", 1, shape({2, 3}),
                  bytes(8, bytes(1, column_major) + bytes(8, floats({1, 4, 2, 5, 3, 6}))));
  const Module read = read_hlo_proto(
      "m.pb", bytes(1, "m") + bytes(3, bytes(1, "e") + constant + number(5, 1) + number(6, 1)) +
                  number(6, 1));
  EXPECT_NE(to_string(read).find("constant({{1, 2, 3}, {4, 5, 6}})"), std::string::npos);
}

TEST(HloProto, ErrorsNameByteAndField) {
  EXPECT_EQ(error_of(module(number(36, 11) + number(36, 99))).find("m.pb: byte "), 0u);
  EXPECT_NE(error_of(module(number(36, 11) + number(36, 99)))
                .find("operand_ids of instructions that stand before r, found 99"),
            std::string::npos);
  EXPECT_NE(error_of(module(number(36, 13))).find("stand before r, found 13"), std::string::npos);
  EXPECT_NE(error_of(module(bytes(36, std::string(9, '\xff')))).find("the end of a varint"),
            std::string::npos);
  EXPECT_NE(error_of(module(number(9, 0) + varint(36 << 3 | 5) + "abcd"))
                .find("varints as field 36, operand_ids (wire type 2, found 5)"),
            std::string::npos);
  EXPECT_NE(error_of(module() + "\x1a\xff\xff\xff\xff\x0f").find("to end within its message"),
            std::string::npos);
  EXPECT_NE(error_of(bytes(1, "m") + number(6, 1)).find("an HloModuleProto with computations"),
            std::string::npos);
}

TEST(HloProto, NamesAreThoseOfTexts) {
  const std::string entry = bytes(1, "main") + instruction("a b", "parameter", 1, shape({})) +
                            number(5, 6) + number(6, 1);
  const std::string error =
      error_of(bytes(1, "m") + bytes(2, "main") + bytes(3, entry) + number(6, 6));
  EXPECT_NE(error.find("name"), std::string::npos) << error;
}

TEST(HloProto, NeverCrashesOnTruncatedOrDamagedBytes) {
  const std::string whole = module();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    error_of(whole.substr(0, length));
  }
  std::mt19937 random(11);
  for (int round = 0; round < 5000; ++round) {
    std::string damaged = whole;
    for (int change = 0; change < 2; ++change) {
      damaged[random() % damaged.size()] = static_cast<char>(random() % 256);
    }
    error_of(damaged);
  }
}

}  // namespace
}  // namespace tpu::hlo::proto_reader_test
