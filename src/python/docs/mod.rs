//! Sections of documentation that a family of functions shares, so that each is written once. A function's comment
//! takes one in by `#[doc = shared!(name)]`; the macro gives a string literal, which the binding macros need.

pub(super) mod row_docs;
pub(super) mod signatures;

/// The text of a shared section, by name.
macro_rules! shared {
    (axes) => {
        "    axis (int | Sequence[int], optional): Axis or axes to reduce over; negative ones count from the last. None\n        \
             takes all. Default: None.\n    \
             keepdims (bool, optional): Whether reduced axes stay, with length 1. Default: False."
    };
    (reduced) => {
        concat!("    a (array): What is reduced, of any shape.\n", shared!(axes))
    };
    (one_axis) => {
        "    axis (int, optional): Axis to search along; a negative one counts from the last. None searches the\n        \
             flattened array. Default: None.\n    \
             keepdims (bool, optional): Whether the axis stays, with length 1. Default: False."
    };
    (reduced_one) => {
        concat!("    a (array): What is searched, of any shape.\n", shared!(one_axis))
    };
    (axis_errors) => {
        "    IndexError: if an axis is out of range.\n    ValueError: if an axis is named twice."
    };
    (empty_errors) => {
        "    IndexError: if an axis is out of range.\n    ValueError: if an axis is named twice, or one that is reduced has length 0."
    };
    (axis_error) => {
        "    IndexError: if the axis is out of range."
    };
    (scan_form) => {
        "    axis (int, optional): Axis to run along; a negative one counts from the last. None runs over the\n        \
             flattened array. Default: None.\n    \
             reverse (bool, optional): Whether to run from the end to the start. Default: False.\n    \
             inclusive (bool, optional): Whether the i-th result takes in the i-th element. Without, results are\n        \
             shifted by one and the first one is that of no elements. Default: True."
    };
    (scanned) => {
        concat!("    a (array): What is run over, of any shape.\n", shared!(scan_form))
    };
    (scanned_as) => {
        "    dtype (Dtype, optional): Dtype that the elements are converted to first. Default: that of `a`."
    };
    (sorted) => {
        "    a (array): What is sorted, of any shape.\n    \
             axis (int, optional): Axis to sort along; a negative one counts from the last. None sorts the\n        \
             flattened array. Default: -1."
    };
    (window) => {
        "    M (int): Number of points; below 1 there are none.\n\n\
         Returns:\n    array: float32, of shape (M,)."
    };
    (shape_dtype) => {
        "    shape (int | Sequence[int]): Shape of the array.\n    \
             dtype (Dtype, optional): Dtype of the elements. Default: float32."
    };
    (shape_errors) => {
        "    ValueError: if a length is negative.\n    TypeError: if the shape is not made of integers."
    };
    (like) => {
        "    a (array): Whose shape, and by default dtype, the result has.\n    \
             dtype (Dtype, optional): Dtype of the elements. Default: that of `a`."
    };
    (matrix) => {
        "    n (int): Number of rows.\n    \
             m (int, optional): Number of columns. Default: None, as many as rows."
    };
    (matrices) => {
        "    a (array): Matrices, (..., m, n), of dtype float32 or float64."
    };
    (square) => {
        "    a (array): Square matrices, (..., n, n), of dtype float32 or float64."
    };
    (real_square_errors) => {
        "    ValueError: if the matrices are not square, a shape or the dtype does not fit, or the stream is one of\n        \
             a GPU."
    };
    (matrix_errors) => {
        "    ValueError: if there are fewer than two axes, the dtype is another one, or the stream is one of a GPU."
    };
    (square_errors) => {
        "    ValueError: if the matrices are not square, the dtype is another one, or the stream is one of a GPU."
    };
    (drawn_shape) => {
        "    shape (Sequence[int], optional): Shape of the result. Default: (), one number."
    };
    (drawn_float) => {
        "    dtype (Dtype, optional): A real floating dtype. Default: float32."
    };
    (drawn_key) => {
        "    key (array, optional): Key of the draw. Default: None, the next one of `mx.random.state`."
    };
    (line) => {
        "    a (array): Elements, real or complex; computed in float32 or complex64.\n    \
             n (int, optional): Length to which the axis is cut or padded with zeros first. Default: None, its length.\n    \
             axis (int, optional): Axis of the transform; a negative one counts from the last. Default: -1.\n    \
             norm (str, optional): Which of a transform and its inverse is scaled by 1 / n: \"backward\" the inverse,\n        \
             \"forward\" the transform, \"ortho\" both by the square root. Default: \"backward\"."
    };
    (line_errors) => {
        "    ValueError: if a length is below 1 or the norm is another one.\n    \
             IndexError: if the axis is out of range."
    };
    (plane) => {
        "    a (array): Elements, real or complex; computed in float32 or complex64.\n    \
             s (Sequence[int], optional): Lengths to which the axes are cut or padded with zeros first. Default: None,\n        \
             their lengths.\n    \
             axes (Sequence[int], optional): Axes of the transform; negative ones count from the last.\n        \
             Default: (-2, -1).\n    \
             norm (str, optional): Which of a transform and its inverse is scaled: \"backward\", \"forward\" or \"ortho\", as\n        \
             for `fft`. Default: \"backward\"."
    };
    (volume) => {
        "    a (array): Elements, real or complex; computed in float32 or complex64.\n    \
             s (Sequence[int], optional): Lengths to which the axes are cut or padded with zeros first; needs `axes`.\n        \
             Default: None, their lengths.\n    \
             axes (Sequence[int], optional): Axes of the transform; negative ones count from the last. Default: None, all.\n    \
             norm (str, optional): Which of a transform and its inverse is scaled: \"backward\", \"forward\" or \"ortho\", as\n        \
             for `fft`. Default: \"backward\"."
    };
    (many_errors) => {
        "    ValueError: if a length is below 1, there are not as many lengths as axes, or the norm is another one.\n    \
             IndexError: if an axis is out of range."
    };
    (quantised) => {
        "    group_size (int, optional): Elements that share a scale. Default: None, 64 or the only one of the mode.\n    \
             bits (int, optional): Bits of a code. Default: None, 4 or the only number of the mode.\n    \
             mode (str, optional): \"affine\", \"mxfp4\", \"mxfp8\" or \"nvfp4\". Default: \"affine\"."
    };
    (conv_numbers) => {
        "    stride (int | Sequence[int], optional): Distance of neighbouring results in the input, one number or one\n        \
             for each axis. Default: 1.\n    \
             padding (int | Sequence[int], optional): Zeros added at both ends of the axes; negative numbers crop.\n        \
             Default: 0.\n    \
             dilation (int | Sequence[int], optional): Distance of neighbouring elements of a kernel in the input.\n        \
             Default: 1.\n    \
             groups (int, optional): Parts of the channels that are convolved separately. Default: 1."
    };
    (conv_transposed_numbers) => {
        "    stride (int | Sequence[int], optional): Distance of neighbouring inputs in the result, one number or one\n        \
             for each axis. Default: 1.\n    \
             padding (int | Sequence[int], optional): Elements cropped from both ends of the axes of the result.\n        \
             Default: 0.\n    \
             dilation (int | Sequence[int], optional): Distance of neighbouring elements of a kernel in the result.\n        \
             Default: 1.\n    \
             output_padding (int | Sequence[int], optional): Elements added at the end of the axes of the result.\n        \
             Default: 0.\n    \
             groups (int, optional): Parts of the channels that are convolved separately. Default: 1."
    };
    (conv_errors) => {
        "    ValueError: if a shape does not fit, a number is not positive, a kernel is larger than the padded input,\n        \
             groups do not divide the channels, or the dtype is not floating."
    };
    // A method of arrays that is a function of `mlx.core` of the same name.
    (method $name:literal) => {
        concat!(
            "Returns:\n    array: As `mlx.core.",
            $name,
            "` gives it, whose documentation tells about dtypes, special values and\n        errors.\n\n",
            ">>> a = mx.array([0.5, 2.0, 1.0])\n>>> mx.array_equal(a.",
            $name,
            "(), mx.",
            $name,
            "(a))\narray(True, dtype=bool)"
        )
    };
    (matrix_method $call:literal, $name:literal) => {
        concat!(
            "Returns:\n    array: As `mlx.core.",
            $name,
            "` gives it, whose documentation tells about layouts and errors.\n\n",
            ">>> a = mx.array([[0, 1, 2], [3, 4, 5]])\n>>> a.",
            $call,
            ".tolist() == np.array(a).",
            $call,
            ".tolist()\nTrue"
        )
    };
    (update) => {
        "    value (array | number): What the elements are updated with; it broadcasts to them.\n\n\
         Returns:\n    array: A new array of the same shape and dtype.\n\n\
         Raises:\n    ValueError: if the value is neither an array nor a number, or does not broadcast."
    };
    (collective) => {
        "    x (array): The array of this process, of the same shape and dtype everywhere.\n    \
             group (Group, optional): The group. Default: None, that of all processes."
    };
}
