//! The classes of Unicode that patterns may name: the categories and scripts of Unicode 15.0. The
//! names are matched exactly, and nothing is kept of a name that is unknown.

use std::collections::HashSet;
use std::sync::LazyLock;

/// All names, in the order of their bytes.
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

static CLASSES: LazyLock<HashSet<&str>> = LazyLock::new(|| NAMES.split(' ').collect());

/// Whether a name is that of a class.
pub(super) fn is_class(name: &str) -> bool {
    CLASSES.contains(name)
}

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::*;

    #[test]
    fn the_library_knows_all_classes() {
        assert_eq!(NAMES.split(' ').count(), 199);
        // It has no class of surrogates, which texts can't have.
        for name in NAMES.split(' ').filter(|name| *name != "Cs") {
            assert!(Regex::new(&format!("\\p{{{name}}}")).is_ok(), "{name}");
        }
    }

    #[test]
    fn names_are_exact() {
        assert!(
            ["L", "Zs", "Adlam", "Zanabazar_Square"]
                .into_iter()
                .all(is_class)
        );
        for other in [
            "",
            " ",
            "L Lu",
            "l",
            "lu",
            "Letter",
            "greek",
            "OldItalic",
            "Latn",
        ] {
            assert!(!is_class(other), "{other}");
        }
    }
}
