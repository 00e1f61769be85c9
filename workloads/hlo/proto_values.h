#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/graph/graph.h"
#include "workloads/hlo/proto_cursor.h"

namespace tpu::hlo {

/// A ShapeProto.
Shape read_shape(const ProtoCursor& message);
/// The row-major bytes of a LiteralProto of that shape.
std::vector<std::uint8_t> read_literal(ProtoCursor message, const Shape& shape);
/// An OpSharding as HLO text has it: "{devices=[8,1]<=[8]}".
std::string sharding_text(const ProtoCursor& message);
/// A FrontendAttributes as HLO text has it without its braces, names in order.
std::string frontend_attributes_text(ProtoCursor message);
Metadata read_metadata(ProtoCursor message);
/// With the escapes of C, without quotes.
std::string escaped(std::string_view bytes);
/// "{1,2,3}".
std::string list_text(const std::vector<std::int64_t>& values);

}  // namespace tpu::hlo
