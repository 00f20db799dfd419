//! The files in `graphs/`, which travel with the binary.

/// Names and texts, in the order of names.
pub const FILES: &[(&str, &str)] = &[
    ("convolution.graph", include_str!("../graphs/convolution.graph")),
    ("dropout.graph", include_str!("../graphs/dropout.graph")),
    ("embedding.graph", include_str!("../graphs/embedding.graph")),
    ("layer.graph", include_str!("../graphs/layer.graph")),
    ("pooling.graph", include_str!("../graphs/pooling.graph")),
    ("siblings.graph", include_str!("../graphs/siblings.graph")),
    ("softmax.graph", include_str!("../graphs/softmax.graph")),
    ("transformer.graph", include_str!("../graphs/transformer.graph")),
    ("variance.graph", include_str!("../graphs/variance.graph")),
    ("views.graph", include_str!("../graphs/views.graph")),
];

#[cfg(test)]
mod tests {
    use super::FILES;

    #[test]
    fn the_list_is_the_folder() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("graphs");
        let entries = std::fs::read_dir(folder).expect("the package holds the folder");
        let mut names: Vec<_> =
            entries.map(|entry| entry.expect("it can be read").file_name().into_string().expect("a word")).collect();
        names.sort();
        assert_eq!(names, FILES.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    }
}
