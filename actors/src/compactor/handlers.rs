//! One handler per message.

use actix::{ActorContext, Context, Handler};

use super::Compactor;
use super::messages::{CompactNow, Stop};
use super::round::Wish;

impl Handler<CompactNow> for Compactor {
    type Result = ();

    fn handle(&mut self, message: CompactNow, context: &mut Context<Compactor>) {
        let wish = Wish {
            up_to: message.up_to,
            reclaim: message.reclaim,
        };
        self.start_round(wish, Some(message.done), context);
    }
}

impl Handler<Stop> for Compactor {
    type Result = ();

    fn handle(&mut self, _: Stop, context: &mut Context<Compactor>) {
        context.stop();
    }
}
