//! JSON as hosts write it by hand: with comments and trailing commas.

use jsonc_parser::ParseOptions;

/// Nothing looser than that: a host would refuse a file in which, say, a comma is missing, and what its author meant is unknown.
pub(crate) fn options() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}
