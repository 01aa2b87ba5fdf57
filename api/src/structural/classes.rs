//! The Unicode classes that patterns may name: the categories and scripts of Unicode 15.0, and the
//! long names of categories. As in Go since 1.25, case, spaces, underscores and hyphens of a name
//! don't matter. Unknown names are not cached.

use std::collections::HashSet;
use std::sync::LazyLock;

/// All short names, sorted by bytes.
const NAMES: &str = "\
    Adlam Ahom Anatolian_Hieroglyphs Arabic Armenian Avestan Balinese Bamum Bassa_Vah Batak \
    Bengali Bhaiksuki Bopomofo Brahmi Braille Buginese Buhid C Canadian_Aboriginal Carian \
    Caucasian_Albanian Cc Cf Chakma Cham Cherokee Chorasmian Co Common Coptic Cs Cuneiform \
    Cypriot Cypro_Minoan Cyrillic Deseret Devanagari Dives_Akuru Dogra Duployan \
    Egyptian_Hieroglyphs Elbasan Elymaic Ethiopic Georgian Glagolitic Gothic Grantha Greek \
    Gujarati Gunjala_Gondi Gurmukhi Han Hangul Hanifi_Rohingya Hanunoo Hatran Hebrew Hiragana \
    Imperial_Aramaic Inherited Inscriptional_Pahlavi Inscriptional_Parthian Javanese Kaithi \
    Kannada Katakana Kawi Kayah_Li Kharoshthi Khitan_Small_Script Khmer Khojki Khudawadi L Lao \
    Latin Lepcha Limbu Linear_A Linear_B Lisu Ll Lm Lo Lt Lu Lycian Lydian M Mahajani Makasar \
    Malayalam Mandaic Manichaean Marchen Masaram_Gondi Mc Me Medefaidrin Meetei_Mayek \
    Mende_Kikakui Meroitic_Cursive Meroitic_Hieroglyphs Miao Mn Modi Mongolian Mro Multani \
    Myanmar N Nabataean Nag_Mundari Nandinagari Nd New_Tai_Lue Newa Nko Nl No Nushu \
    Nyiakeng_Puachue_Hmong Ogham Ol_Chiki Old_Hungarian Old_Italic Old_North_Arabian \
    Old_Permic Old_Persian Old_Sogdian Old_South_Arabian Old_Turkic Old_Uyghur Oriya Osage \
    Osmanya P Pahawh_Hmong Palmyrene Pau_Cin_Hau Pc Pd Pe Pf Phags_Pa Phoenician Pi Po Ps \
    Psalter_Pahlavi Rejang Runic S Samaritan Saurashtra Sc Sharada Shavian Siddham SignWriting \
    Sinhala Sk Sm So Sogdian Sora_Sompeng Soyombo Sundanese Syloti_Nagri Syriac Tagalog \
    Tagbanwa Tai_Le Tai_Tham Tai_Viet Takri Tamil Tangsa Tangut Telugu Thaana Thai Tibetan \
    Tifinagh Tirhuta Toto Ugaritic Vai Vithkuqi Wancho Warang_Citi Yezidi Yi Z \
    Zanabazar_Square Zl Zp Zs";

/// The long names of categories, and the classes that are neither a category nor a script.
const LONG_NAMES: &str = "\
    Any ASCII Assigned Cased_Letter Close_Punctuation Cn Combining_Mark Connector_Punctuation \
    Control Currency_Symbol Dash_Punctuation Decimal_Number Enclosing_Mark Final_Punctuation \
    Format Initial_Punctuation LC Letter Letter_Number Line_Separator Lowercase_Letter Mark \
    Math_Symbol Modifier_Letter Modifier_Symbol Nonspacing_Mark Number Open_Punctuation Other \
    Other_Letter Other_Number Other_Punctuation Other_Symbol Paragraph_Separator Private_Use \
    Punctuation Separator Space_Separator Spacing_Mark Symbol Titlecase_Letter Unassigned \
    Uppercase_Letter";

/// The names in the normalized form for comparisons.
static CLASSES: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let names = NAMES.split(' ').chain(LONG_NAMES.split(' '));
    names.map(comparable).collect()
});

fn comparable(name: &str) -> String {
    let letters = name.chars().filter(|c| !matches!(c, ' ' | '_' | '-'));
    letters.map(|c| c.to_ascii_lowercase()).collect()
}

/// Returns whether a name is that of a class.
pub(super) fn is_class(name: &str) -> bool {
    CLASSES.contains(&comparable(name))
}

/// Returns whether a name is that of the surrogates, which the `regex` crate does not know.
pub(super) fn is_of_surrogates(name: &str) -> bool {
    matches!(&*comparable(name), "cs" | "surrogate")
}

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::*;

    #[test]
    fn the_library_knows_all_classes() {
        assert_eq!(NAMES.split(' ').count(), 199);
        // The crate has no class of surrogates, because UTF-8 texts cannot contain any.
        let names = NAMES.split(' ').chain(LONG_NAMES.split(' '));
        for name in names.filter(|name| *name != "Cs") {
            assert!(Regex::new(&format!("\\p{{{name}}}")).is_ok(), "{name}");
        }
    }

    #[test]
    fn names_are_compared_without_case_and_separators() {
        for name in [
            "L",
            "l",
            "Zs",
            "Letter",
            "greek",
            "OldItalic",
            "old-italic",
            "G_reek",
        ] {
            assert!(is_class(name), "{name}");
        }
        for other in ["", " ", "L Lu", "Latn", "Latine", "isGreek"] {
            assert!(!is_class(other), "{other}");
        }
        assert!(is_of_surrogates("cs") && !is_of_surrogates("c"));
    }
}
