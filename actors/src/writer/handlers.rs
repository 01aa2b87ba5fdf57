//! The message handlers of a Writer.

use actix::{ActorContext, Context, Handler};

use super::Writer;
use super::messages::{AskForTurn, Busy, ForgetAll, Stop};
use super::now;
use super::turns::TurnRequest;

impl Handler<AskForTurn> for Writer {
    type Result = Result<(), Busy>;

    fn handle(&mut self, message: AskForTurn, context: &mut Context<Writer>) -> Result<(), Busy> {
        let pulse = self.exit.pulse().clone();
        let _turn = pulse.turn();
        if self.turns.is_full() {
            return Err(Busy);
        }
        let id = self.queue(message.grant);
        let asked = TurnRequest {
            id,
            losses: message.losses,
            deadline: message.deadline.into_std(),
        };
        let effects = self.turns.ask(now(), &message.key, asked);
        self.perform(effects, context);
        Ok(())
    }
}

impl Handler<ForgetAll> for Writer {
    type Result = ();

    fn handle(&mut self, _: ForgetAll, _: &mut Context<Writer>) {
        self.turns.forget_outcomes();
    }
}

impl Handler<Stop> for Writer {
    type Result = ();

    fn handle(&mut self, _: Stop, context: &mut Context<Writer>) {
        context.stop();
    }
}
