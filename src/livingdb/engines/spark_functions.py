"""Spark's functions: those that a statement may call, and those that it may not, with the reason.

Allowed is what computes its answer from its arguments, from chance or from the clock.  What loads
code, reads or writes files, reaches the network, or tells about the process, its session or its
settings is refused; so is every name that is on neither list, such as a function that somebody
registered.  `tests/spark/test_functions.py` compares the lists with those of Spark itself.
"""

from __future__ import annotations

__all__ = ["ALLOWED", "REFUSED"]

_CODE = "calls any method of any Java class"
_XML = "loads the document type that the text names, from a file or the network"
_XSD = "reads the file or address that its options name"
_PACK = "is code of a package that Spark loads, and reads the schema that its options name"
_PATHS = "tells where files lie"
_WHO = "tells who runs the query, and not what the tables hold"
_SESSION = "tells how the Spark session is set up, and not what the tables hold"
_LOGS = "reads the logs of Python workers"

REFUSED: dict[str, str] = {
    "current_catalog": _SESSION,
    "current_database": _SESSION,
    "current_path": _SESSION,
    "current_schema": _SESSION,
    "current_timezone": _SESSION,
    "current_user": _WHO,
    "from_avro": _PACK,
    "from_protobuf": _PACK,
    "from_xml": _XSD,
    "input_file_block_length": _PATHS,
    "input_file_block_start": _PATHS,
    "input_file_name": _PATHS,
    "java_method": _CODE,
    "python_worker_logs": _LOGS,
    "reflect": _CODE,
    "schema_of_avro": _PACK,
    "schema_of_xml": _XSD,
    "session_user": _WHO,
    "to_avro": _PACK,
    "to_protobuf": _PACK,
    "try_reflect": _CODE,
    "user": _WHO,
    "version": _SESSION,
    "xpath": _XML,
    "xpath_boolean": _XML,
    "xpath_double": _XML,
    "xpath_float": _XML,
    "xpath_int": _XML,
    "xpath_long": _XML,
    "xpath_number": _XML,
    "xpath_short": _XML,
    "xpath_string": _XML,
}

_ALLOWED = (
    # JSON, CSV, XML and variants, of text that is given
    "from_csv from_json get_json_object is_valid_variant is_variant_null "
    "json_array_length json_object_keys json_tuple parse_json schema_of_csv "
    "schema_of_json schema_of_variant schema_of_variant_agg to_csv to_json "
    "to_variant_object to_xml try_parse_json try_variant_array_append try_variant_get "
    "try_variant_insert try_variant_set variant_array_append variant_delete "
    "variant_explode variant_explode_outer variant_get variant_insert variant_set "
    "variant_strip_nulls "
    # aggregates
    "any_value approx_count_distinct approx_percentile array_agg avg bit_and bit_or "
    "bit_xor bool_and bool_or collect_list collect_set collect_union corr count count_if "
    "covar_pop covar_samp first first_value grouping grouping_id histogram_numeric "
    "kurtosis last last_value listagg max max_by mean measure median min min_by mode "
    "percentile percentile_approx percentile_cont percentile_disc regr_avgx regr_avgy "
    "regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy skewness std "
    "stddev stddev_pop stddev_samp string_agg sum try_avg try_sum var_pop var_samp "
    "variance "
    # arrays, maps and structs
    "aggregate array array_append array_compact array_contains array_distinct "
    "array_except array_insert array_intersect array_join array_max array_min "
    "array_position array_prepend array_remove array_repeat array_size array_sort "
    "array_union arrays_overlap arrays_zip cardinality element_at filter flatten forall "
    "get map map_concat map_contains_key map_entries map_filter map_from_arrays "
    "map_from_entries map_keys map_values map_zip_with named_struct reduce sequence "
    "shuffle size slice sort_array str_to_map struct transform transform_keys "
    "transform_values try_element_at zip_with "
    # casts, written as functions
    "bigint binary boolean date decimal double float int smallint string time timestamp "
    "tinyint "
    # chance
    "rand randn random randstr uniform uuid "
    # dates and times
    "add_months convert_timezone curdate current_date current_time current_timestamp "
    "date_add date_diff date_format date_from_unix_date date_part date_sub date_trunc "
    "dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear extract "
    "from_unixtime from_utc_timestamp hour last_day localtime localtimestamp make_date "
    "make_dt_interval make_interval make_time make_timestamp make_timestamp_ltz "
    "make_timestamp_ntz make_ym_interval minute month monthname months_between next_day "
    "now quarter second session_window time_bucket time_diff time_from_micros "
    "time_from_millis time_from_seconds time_to_micros time_to_millis time_to_seconds "
    "time_trunc timestamp_micros timestamp_millis timestamp_nanos timestamp_seconds "
    "to_date to_time to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp "
    "to_utc_timestamp trunc try_make_interval try_make_timestamp try_make_timestamp_ltz "
    "try_make_timestamp_ntz try_to_date try_to_time try_to_timestamp unix_date "
    "unix_micros unix_millis unix_nanos unix_seconds unix_timestamp weekday weekofyear "
    "window window_time year "
    # hashes, ciphers and codes of bytes
    "aes_decrypt aes_encrypt base64 crc32 decode encode from_base32 hash hex hmac "
    "is_valid_utf8 make_valid_utf8 md5 sha sha1 sha2 to_base32 try_aes_decrypt "
    "try_url_decode try_validate_utf8 unbase64 unhex url_decode url_encode validate_utf8 "
    "xxhash64 "
    # nulls
    "coalesce ifnull isnotnull isnull nullif nvl nvl2 "
    # numbers
    "abs acos acosh asin asinh atan atan2 atanh bin bit_count bit_get bround cbrt ceil "
    "ceiling conv cos cosh cot csc degrees e exp expm1 factorial floor getbit greatest "
    "hypot isnan least ln log log10 log1p log2 nanvl negative nullifzero pi pmod positive "
    "pow power radians rint round sec shiftleft shiftright shiftrightunsigned sign signum "
    "sin sinh sqrt tan tanh try_add try_divide try_mod try_multiply try_subtract "
    "width_bucket zeroifnull "
    # operators, and words of the grammar that are listed as functions
    "! != % & * + - / < << <= <=> <> = == > >= >> >>> ^ and any between case cast div "
    "every exists if ilike in like mod not or regexp rlike some when | || ~ "
    # rows and types, and errors that are asked for
    "assert_true equal_null monotonically_increasing_id raise_error spark_partition_id "
    "typeof "
    # rows out of values, and rows of their own
    "collations explode explode_outer inline inline_outer posexplode posexplode_outer "
    "range sql_keywords stack "
    # sketches
    "approx_top_k approx_top_k_accumulate approx_top_k_combine approx_top_k_estimate "
    "bitmap_and_agg bitmap_bit_position bitmap_bucket_number bitmap_construct_agg "
    "bitmap_count bitmap_or_agg count_min_sketch hll_sketch_agg hll_sketch_estimate "
    "hll_union hll_union_agg kll_merge_agg_bigint kll_merge_agg_double "
    "kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float "
    "kll_sketch_get_n_bigint kll_sketch_get_n_double kll_sketch_get_n_float "
    "kll_sketch_get_quantile_bigint kll_sketch_get_quantile_double "
    "kll_sketch_get_quantile_float kll_sketch_get_rank_bigint kll_sketch_get_rank_double "
    "kll_sketch_get_rank_float kll_sketch_merge_bigint kll_sketch_merge_double "
    "kll_sketch_merge_float kll_sketch_to_string_bigint kll_sketch_to_string_double "
    "kll_sketch_to_string_float theta_difference theta_intersection "
    "theta_intersection_agg theta_sketch_agg theta_sketch_estimate theta_union "
    "theta_union_agg tuple_difference_double tuple_difference_integer "
    "tuple_difference_theta_double tuple_difference_theta_integer "
    "tuple_intersection_agg_double tuple_intersection_agg_integer "
    "tuple_intersection_double tuple_intersection_integer tuple_intersection_theta_double "
    "tuple_intersection_theta_integer tuple_sketch_agg_double tuple_sketch_agg_integer "
    "tuple_sketch_estimate_double tuple_sketch_estimate_integer "
    "tuple_sketch_summary_double tuple_sketch_summary_integer tuple_sketch_theta_double "
    "tuple_sketch_theta_integer tuple_union_agg_double tuple_union_agg_integer "
    "tuple_union_double tuple_union_integer tuple_union_theta_double "
    "tuple_union_theta_integer "
    # text
    "ascii bit_length btrim char char_length character_length chr collate collation "
    "concat concat_ws contains elt endswith find_in_set format_number format_string "
    "initcap instr jaro_winkler_similarity lcase left len length levenshtein locate lower "
    "lpad ltrim luhn_check mask octet_length overlay parse_url position printf quote "
    "regexp_count regexp_extract regexp_extract_all regexp_instr regexp_like "
    "regexp_replace regexp_substr repeat replace reverse right rpad rtrim sentences "
    "soundex space split split_part startswith substr substring substring_index to_binary "
    "to_char to_number to_varchar translate trim try_parse_url try_to_binary "
    "try_to_number ucase upper "
    # vectors and geometry
    "st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid st_srid vector_avg "
    "vector_cosine_similarity vector_inner_product vector_l2_distance vector_norm "
    "vector_normalize vector_sum "
    # windows
    "counter_diff cume_dist dense_rank lag lead nth_value ntile percent_rank rank "
    "row_number "
)

ALLOWED: frozenset[str] = frozenset(_ALLOWED.split())
